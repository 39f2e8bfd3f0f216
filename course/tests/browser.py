"""What must be true of a page, checked in the system's Chromium with the network off.

`Visit` opens one page and asks; every answer is a list of `Problem`s. test_pages.py asks it of the
book's pages, and of small broken pages that each question must catch.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

PHONE, DESKTOP = 390, 1280  # widths in CSS pixels
AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
# Debian's Chromium, quiet: it looks for updates and experiments as soon as it starts.
ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# A picture loads when it is scrolled to, so it's asked to load before it is judged.
IMAGES = """async () => {
  const images = [...document.images];
  await Promise.all(images.map(async image => {
    image.loading = 'eager';
    await image.decode().catch(() => {});
  }));
  return images.map(image => ({
    source: image.getAttribute('src'), alt: image.getAttribute('alt'), width: image.naturalWidth,
  }));
}"""

# Bad TeX is no error to MathJax: it sets the message, or the unknown macro, in red or yellow.
MATH = """async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  const all = [...document.querySelectorAll('.math')];
  const red = ['merror', 'mtext'].flatMap(kind => [...document.querySelectorAll(
    `mjx-container [data-mml-node="${kind}"]`)]).filter(node =>
      node.dataset.mmlNode === 'merror' || node.getAttribute('fill') === 'red');
  return {
    raw: all.filter(node => !node.querySelector('mjx-container')).map(node => node.textContent),
    bad: red.map(node => (node.closest('.math') || node).textContent.trim() || node.outerHTML),
    count: all.length,
  };
}"""

# Wide tables and code scroll inside themselves. Anything else that sticks out of the window is
# either cut off or makes the whole page slide.
OVERFLOW = """() => {
  const edge = document.documentElement.clientWidth;
  const problems = [];
  const page = document.scrollingElement;
  if (page.scrollWidth > edge) problems.push(`the page is ${page.scrollWidth} wide`);
  const scrolls = node => {
    for (let up = node.parentElement; up && up !== document.body; up = up.parentElement)
      if (['auto', 'scroll'].includes(getComputedStyle(up).overflowX)
          && up.getBoundingClientRect().right <= edge + 1) return true;
    return false;
  };
  for (const node of document.querySelectorAll('main article *, body.bare *')) {
    const box = node.getBoundingClientRect();
    const clipped = node.closest('svg, mjx-assistive-mml, .sr-only, .visually-hidden');
    if (box.width > 1 && box.right > edge + 1 && !clipped && !scrolls(node))
      problems.push(`${node.tagName} ${node.className} ends at ${Math.round(box.right)}`);
  }
  return problems.slice(0, 3);
}"""

ADDRESSES = """() => [...document.querySelectorAll('[src], link[href], use[href]')]
  .map(node => node.getAttribute('src') || node.getAttribute('href'))
  .filter(address => /^(https?:)?\\/\\//.test(address))"""

# Without the tooltip of the button that was clicked last: it goes when it likes.
LOOK = """() => [
  ...document.querySelectorAll('body, body *:not(.tooltip, .tooltip *)')
].map(node => {
  const style = getComputedStyle(node);
  return style.color + style.backgroundColor + style.filter;
})"""


@dataclass(frozen=True)
class Problem:
    kind: str  # request, console, math, image, overflow or axe
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


def find_chromium() -> str:
    """The system's browser. Where there is none, a skip; in CI, where one must be, a failure."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    unavailable("there is no Chromium here (Debian and Ubuntu: apt install chromium)")


def unavailable(reason: str):
    """Skip, but not in CI: a check that nobody notices missing isn't one."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and in CI it may not be missing")
    pytest.skip(reason)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


class Visit:
    """One page, opened from disk with the network off, as a reader with `scheme` sees it."""

    def __init__(self, browser: Browser, file: Path, scheme: str = "light", query: str = ""):
        self._context = browser.new_context(
            color_scheme=scheme, viewport={"width": DESKTOP, "height": 900}, offline=True
        )
        self.page: Page = self._context.new_page()
        self._heard: list[Problem] = []
        self.page.on("request", self._on_request)
        self.page.on("requestfailed", self._on_request_failed)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self._hear("console", str(error)))
        self.page.goto(file.as_uri() + query, wait_until="load")

    def __enter__(self) -> "Visit":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self._context.close()

    def _hear(self, kind: str, detail: str) -> None:
        self._heard.append(Problem(kind, detail))

    def _on_request(self, request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self._hear("request", request.url)

    def _on_request_failed(self, request) -> None:
        if request.url.startswith("file:"):
            self._hear("request", f"{request.url} is not there")

    def _on_console(self, message) -> None:
        # That a resource failed to load is said by name above, or by the picture that is missing.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self._hear("console", message.text)

    def heard(self) -> list[Problem]:
        """Everything outside that it asked for, and every error that its scripts raised."""
        outside = [Problem("request", address) for address in self.page.evaluate(ADDRESSES)]
        return list(dict.fromkeys(self._heard + outside))

    def math(self) -> list[Problem]:
        found = self.page.evaluate(MATH)
        return [Problem("math", f"not typeset: {text}") for text in found["raw"]] + [
            Problem("math", f"typeset in red: {text}") for text in found["bad"]
        ]

    def images(self) -> list[Problem]:
        problems = []
        for image in self.page.evaluate(IMAGES):
            alt = (image["alt"] or "").strip()
            # Without an alt of its own, Sphinx puts the file's name there.
            if len(alt.split()) < 3 or alt.endswith((".svg", ".png")):
                problems.append(Problem("image", f"{image['source']} has the alt {image['alt']!r}"))
            if not image["width"]:
                problems.append(Problem("image", f"{image['source']} does not load"))
        return problems

    def resize(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": 900})
        # The theme makes what scrolls now reachable by keyboard, 300 ms after the last change.
        self.page.wait_for_timeout(500)

    def overflow(self) -> list[Problem]:
        return [Problem("overflow", text) for text in self.page.evaluate(OVERFLOW)]

    def axe(self) -> list[Problem]:
        if not self.page.evaluate("() => Boolean(window.axe)"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        # preload would fetch the style sheets again, which a page from disk may not.
        result = self.page.evaluate("() => axe.run({resultTypes: ['violations'], preload: false})")
        return [
            Problem("axe", f"{rule['id']}: {rule['help']}: {rule['nodes'][0]['html'][:200]}")
            for rule in result["violations"]
        ]

    def theme(self) -> str:
        return self.page.evaluate("() => document.documentElement.dataset.theme")

    def look(self) -> list[str]:
        """The colours of everything on the page, to tell whether two visits look the same."""
        return self.page.evaluate(LOOK)
