"""The built book, as readers see it: from disk, with no network, on a phone and on a desk.

BOOK_HTML names the folder to check; without it, what `make book` built. The second half shows that
each check can fail, on small pages with one fault each.
"""

import os
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from course.paths import ROOT
from course.tests.browser import DESKTOP, PHONE, Visit, chromium, unavailable

HTML = Path(os.environ.get("BOOK_HTML", ROOT / "book" / "_build" / "html"))
# _static holds the theme's own templates, which are no pages.
PAGES = sorted(
    path.relative_to(HTML).as_posix()
    for path in HTML.rglob("*.html")
    if "_static" not in path.relative_to(HTML).parts
)
CHAPTERS = [name for name in PAGES if name.startswith("chapters/")]


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def visit(browser):
    """Opens a page of the book; closed again after the test."""
    opened = []

    def opener(file, *args, **kwargs):
        opened.append(Visit(browser, file, *args, **kwargs))
        return opened[-1]

    yield opener
    for each in opened:
        each.close()


@pytest.fixture(scope="module")
def book():
    if not (HTML / "index.html").is_file():
        unavailable(f"no book in {HTML}; build it with `make book`")
    return HTML


def report(problems):
    return "\n".join(map(str, problems))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES or ["index.html"])
def test_page(name, scheme, book, visit):
    page = visit(book / name, scheme)
    problems = page.math() + page.images()
    for width in (DESKTOP, PHONE):
        page.resize(width)
        problems += page.overflow() + page.axe()
    assert page.theme() == scheme
    problems += page.heard()
    assert not problems, report(problems)


@pytest.mark.parametrize("name", PAGES or ["index.html"])
def test_the_switch_gives_the_colours_of_a_dark_system(name, book, visit):
    # So what test_page finds for a dark system holds for a reader who uses the switch.
    switched, dark = visit(book / name, "light"), visit(book / name, "dark")
    for page in (switched, dark):
        page.math()  # waits until MathJax is done
        # Colours fade into each other, which a busy machine draws out.
        page.page.add_style_tag(content="* { transition: none !important; }")
    switch = switched.page.locator("button.theme-switch-button:visible").first
    for _ in range(3):  # auto, light, dark: it goes round
        if switched.theme() != "dark":
            switch.click()
    assert switched.theme() == "dark"
    for page in (switched, dark):
        page.page.mouse.move(0, 0)
        page.page.evaluate("() => document.activeElement.blur()")
    assert switched.look() == dark.look()
    assert not switched.heard(), report(switched.heard())


def test_a_tooltip_is_no_change_of_look(book, visit):
    page = visit(book / "index.html")
    before = page.look()
    page.page.locator("button.theme-switch-button:visible").first.hover()
    page.page.locator(".tooltip").first.wait_for(state="visible", timeout=5000)
    page.page.locator("button.theme-switch-button:visible").first.evaluate("x => x.blur()")
    assert len(page.look()) == len(before)


@pytest.mark.parametrize("name", CHAPTERS or ["chapters/01-naive.html"])
def test_solutions_and_hints_are_folded_and_open_by_keyboard(name, book, visit):
    page = visit(book / name).page
    exercises = page.locator("article .admonition.exercise").count()
    assert exercises, "a chapter without an exercise"
    folded = page.locator("article details")
    assert page.locator("article details[open]").count() == 0
    for title, count in [("Show the solution", exercises)] + [
        (f"Hint {level}", exercises) for level in (1, 2, 3)
    ]:
        found = folded.filter(has=page.locator("summary", has_text=title))
        assert found.count() == count, f"{found.count()} of {title!r} for {exercises} exercises"
        for index in range(count):
            summary = found.nth(index).locator("summary").first
            inside = found.nth(index).locator(":scope > *:not(summary)").first
            assert not inside.is_visible()
            summary.focus()
            page.keyboard.press("Enter")
            inside.wait_for(state="visible", timeout=2000)
            page.keyboard.press("Enter")
            inside.wait_for(state="hidden", timeout=2000)


def test_search_finds_a_word_of_chapter_01(book, visit):
    page = visit(book / "index.html")
    page.page.keyboard.press("Control+k")
    page.page.keyboard.type("roofline")
    page.page.keyboard.press("Enter")
    page.page.wait_for_url("**/search.html?q=roofline*")
    result = page.page.locator("#search-results li a[href*='01-naive']").first
    result.wait_for(timeout=10_000)
    assert not page.heard(), report(page.heard())
    result.click()
    page.page.wait_for_url("**/chapters/01-naive.html*")
    assert "memory wall" in page.page.locator("article h1").inner_text()
    assert not page.heard(), report(page.heard())


class Links(HTMLParser):
    """The links of a page, and the ids that links can lead to."""

    def __init__(self, file):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id"))
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])


def dead_links(folder):
    pages = {}
    for file in sorted(folder.rglob("*.html")):
        if "_static" not in file.relative_to(folder).parts:
            pages[file.resolve()] = Links(file)
    dead = []
    for file, page in pages.items():
        for link in page.links:
            address, fragment = urldefrag(link)
            if address.startswith(("http:", "https:", "mailto:")):
                continue
            target = (file.parent / unquote(address)).resolve() if address else file
            if not target.is_file() or (
                fragment and target in pages and unquote(fragment) not in pages[target].ids
            ):
                dead.append(f"{file.name}: {link}")
    return dead


def test_every_link_inside_the_book_leads_somewhere(book):
    assert not dead_links(book)


# ── each check can fail ──────────────────────────────────────────────────────────────────────

SOUND = """<!doctype html><html lang="en"><head><title>A page</title></head>
<body class="bare"><main><h1>A page</h1>{}</main></body></html>"""
MATHJAX = (ROOT / "book" / "_assets" / "mathjax" / "tex-svg.js").as_uri()
MATH = f'<script defer src="{MATHJAX}"></script><p class="math">{{}}</p>'
DOT = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='9' height='9'%3E%3C/svg%3E"
)
BROKEN = {
    "sound": (SOUND.format(MATH.format(r"\(\sqrt{d}\)")), set(), ""),
    "picture from outside": (
        SOUND.format('<img src="https://example.com/a.png" alt="a picture from outside">'),
        {"request", "image"},
        "https://example.com/a.png",
    ),
    "font from outside": (
        SOUND.format("<style>@import '//fonts.example.com/css';</style>").replace(
            "<h1>", '<link rel="preconnect" href="https://fonts.example.com"><h1>'
        ),
        {"request"},
        "https://fonts.example.com",
    ),
    "script from outside, later": (
        SOUND.format("<script>fetch('https://example.com/count').catch(() => {})</script>"),
        {"request"},
        "https://example.com/count",
    ),
    "file not there": (
        SOUND.format('<script src="gone.js"></script>'),
        {"request"},
        "gone.js is not there",
    ),
    "unknown macro": (SOUND.format(MATH.format(r"\(\nosuch{x}\)")), {"math"}, r"\nosuch"),
    "unbalanced TeX": (SOUND.format(MATH.format(r"\(\frac{x\)")), {"math"}, "not typeset"),
    "wrong TeX": (SOUND.format(MATH.format(r"\(x^1^2\)")), {"math"}, "in red"),
    "math without MathJax": (
        SOUND.format(r'<p class="math">\(x\)</p>'),
        {"math"},
        r"not typeset: \(x\)",
    ),
    "no alt": (SOUND.format(f'<img src="{DOT}">'), {"image", "axe"}, "has the alt None"),
    "alt is the file's name": (
        SOUND.format(f'<img src="{DOT}" alt="_images/436b7d.svg">'),
        {"image"},
        "has the alt '_images/436b7d.svg'",
    ),
    "picture not there": (
        SOUND.format('<img src="gone.png" alt="a picture that is not there">'),
        {"image", "request"},
        "gone.png does not load",
    ),
    "console error": (
        SOUND.format("<script>console.error('a complaint')</script>"),
        {"console"},
        "a complaint",
    ),
    "exception": (SOUND.format("<script>nothing.here()</script>"), {"console"}, "nothing"),
    "low contrast": (
        SOUND.format('<p style="color: #aaa; background: #fff">pale</p>'),
        {"axe"},
        "color-contrast",
    ),
    "no language": (SOUND.format("").replace(' lang="en"', ""), {"axe"}, "html-has-lang"),
    "too wide": (
        SOUND.format('<p style="width: 600px">wide</p>'),
        {"overflow"},
        "ends at",
    ),
    "too wide and cut off": (
        SOUND.format('<div style="overflow: hidden"><p style="width: 600px">wide</p></div>'),
        {"overflow"},
        "P  ends at",
    ),
    "wide but scrolls": (
        SOUND.format(
            '<div style="overflow: auto" tabindex="0"><p style="width: 600px">wide</p></div>'
        ),
        set(),
        "",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_fault_is_caught(name, visit, tmp_path):
    html, kinds, detail = BROKEN[name]
    file = tmp_path / "page.html"
    file.write_text(html, encoding="utf-8")
    page = visit(file)
    problems = page.math() + page.images()
    page.resize(PHONE)
    problems += page.overflow() + page.axe() + page.heard()
    assert {problem.kind for problem in problems} == kinds, report(problems)
    assert detail in report(problems)


def test_a_dead_link_is_caught(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a>'
    )
    (tmp_path / "b.html").write_text('<p id="there"><a href="#there">4</a>')
    assert dead_links(tmp_path) == ["a.html: b.html#gone", "a.html: c.html"]


def test_a_missing_browser_is_a_skip_here_and_a_failure_in_ci(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Chromium"), chromium():
        pass
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no Chromium"), chromium():
        pass
