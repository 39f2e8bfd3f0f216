"""The book's figures: colours that everybody can tell apart, and the same bytes on every run."""

import io
import itertools

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from course.figures import COLOURS, DASHES, use_book_style

# How the three kinds of colour blindness see linear RGB: Machado, Oliveira and Fernandes (2009),
# "A Physiologically-based Model for Simulation of Color Vision Deficiency", severity 1.
SEEN = {
    "as it is": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)  # sRGB, D65


def linear(colour):
    rgb = np.array(mpl.colors.to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast_with_white(colour):
    return 1.05 / (linear(colour) @ TO_XYZ[1] + 0.05)


def lab(rgb):
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / TO_XYZ.sum(axis=1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def closest(colours, matrix):
    """The least distance of two colours in CIELAB, where about 2 is just noticeable."""
    seen = [lab(matrix @ linear(colour)) for colour in colours]
    return min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))


def test_contrast_with_the_white_card():
    assert min(map(contrast_with_white, COLOURS.values())) >= 3
    assert contrast_with_white("#E69F00") < 3  # Okabe and Ito's orange: the test can fail


@pytest.mark.parametrize("eyes", SEEN)
def test_colours_differ_for_everyone(eyes):
    assert closest(COLOURS.values(), SEEN[eyes]) >= 15
    red_and_green = closest(["#B00000", "#406000"], SEEN["deuteranopia"])
    assert red_and_green < 15  # the test can fail


def test_every_line_has_dashes_of_its_own():
    assert len(DASHES) == len(COLOURS)


def test_the_same_figure_gives_the_same_bytes(monkeypatch):
    def draw():
        figure, axes = plt.subplots()
        axes.fill_between([1, 2, 3], [1, 3, 2], hatch="/", label="$QK^T$")
        axes.legend()
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
        plt.close(figure)
        return file.getvalue()

    with mpl.rc_context():
        mpl.use("agg")
        use_book_style()
        first = draw()
        assert draw() == first
        assert b"<text" not in first  # letters are outlines, which need no font
        mpl.rcParams["svg.hashsalt"] = None
        assert draw() != first  # the test can fail
