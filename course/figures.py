"""How the book's figures look: one call, `use_book_style()`, in a chapter's setup cell."""

import sys

import matplotlib as mpl
from cycler import cycler

# Told apart with every common kind of colour blindness, and at least 3:1 against white, which is
# what WCAG 2.2 (1.4.11) asks of lines. Okabe and Ito's palette, without the colours too pale for
# that; course/tests/test_figures.py checks both.
COLOURS = {
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "purple": "#AA3377",
    "black": "#222222",
}

# Lines differ in dashes as well, so that a figure still reads when printed in grey.
DASHES = ["-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (9, 3))]

STYLE = {
    # 5.6 inches are 538 pixels on the page. On a phone 390 pixels wide that shrinks to two
    # thirds, and 12 points are then 10 to 11 pixels: still readable.
    "figure.figsize": (5.6, 3.6),
    "font.size": 12,
    "font.family": "DejaVu Sans",  # comes with Matplotlib, so it's the same everywhere
    "axes.titlesize": 13,
    "axes.labelsize": 12,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    # A white card under every figure: it reads on the book's dark pages too.
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.prop_cycle": cycler(color=list(COLOURS.values()), linestyle=DASHES),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 6.0,
    "image.cmap": "viridis",
    # The same picture must give the same bytes: fixed ids, and letters as outlines, which don't
    # depend on the fonts of whoever reads it.
    "svg.hashsalt": "flash-attention-tile-by-tile",
    "svg.fonttype": "path",
}


def use_book_style() -> None:
    """Set the book's figure style, and inside a notebook the SVG format.

    Calling it again changes nothing. The same figure gives the same bytes on every run.
    """
    mpl.rcParams.update(STYLE)
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        return
    # Through the configuration rather than set_matplotlib_formats: Matplotlib's inline backend
    # reads it when it starts, which may be before or after this call.
    from matplotlib_inline.config import InlineBackend

    backend = InlineBackend.instance(parent=shell)
    backend.shell = shell
    # Without Date=None the SVG would hold the time of day.
    backend.print_figure_kwargs = {"bbox_inches": "tight", "metadata": {"Date": None}}
    backend.figure_formats = {"svg"}
