"""Draw charts with matplotlib, without pyplot and without a display: an SVG for a light page, and one for a dark page.

Guarantees: equal data gives equal bytes; nothing that matplotlib has to say reaches the terminal; a text is drawn as
it is, whatever is in it. Importing matplotlib takes most of a second, so this module imports it when it draws.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING

from judgegym.reports.run_page.items import Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 5.6, 3.0
"""Inches."""


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of a chart."""

    text: str
    muted: str
    grid: str
    bar: str
    accent: str


LIGHT = Palette(text="#1f2328", muted="#59636e", grid="#d9dee3", bar="#3f6fb5", accent="#b4531c")
_DARK = Palette(text="#e6e9ec", muted="#a3abb4", grid="#3b434c", bar="#7fa9e6", accent="#f0995f")

_LONGEST_NAME = 34
_UNPRINTABLE = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")
_FONTS = re.compile(rb"(font: [^;\"']*?[\d.]+px )'[^;\"]*(?=[;\"])")
_DECLARATIONS = re.compile(rb"<\?xml.*?\?>\s*|<!DOCTYPE.*?>\s*|<metadata>.*?</metadata>\s*", re.DOTALL)
_DRAWING = Lock()  # matplotlib's settings are global
_STYLE = {
    "svg.fonttype": "none",  # text as text, in the reader's own font
    "svg.hashsalt": "judgegym",  # names of parts are digests: of the same salt, not of a random one
    "text.parse_math": False,
    "text.usetex": False,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],  # matplotlib brings it along; it is only measured with
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.edgecolor": LIGHT.muted,
    "axes.labelcolor": LIGHT.muted,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": LIGHT.grid,
    "grid.linewidth": 0.6,
    "text.color": LIGHT.text,
    "xtick.color": LIGHT.muted,
    "ytick.color": LIGHT.muted,
    "xtick.labelcolor": LIGHT.text,
    "ytick.labelcolor": LIGHT.text,
}


@dataclass(slots=True)
class Canvas:
    """One chart while it is drawn: `axes` takes the marks; `image` is there after the block of `drawing`."""

    axes: Axes
    image: bytes = b""

    def chart(self, title: str, description: str) -> Chart:
        """The chart that was drawn."""
        return Chart(title, self.image, _recoloured(self.image), description)


@contextmanager
def drawing(*, height: float = HEIGHT) -> Iterator[Canvas]:
    """Axes to draw on, `height` inches high; at the end of the block they become an image."""
    with _DRAWING, _quiet():
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context():  # what the user has set for charts of their own comes back at its end
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_STYLE)
            figure = Figure(figsize=(WIDTH, height), layout="constrained")
            canvas = Canvas(figure.add_subplot())
            yield canvas
            file = BytesIO()
            nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
            figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    canvas.image = _FONTS.sub(rb"\1system-ui, sans-serif", _DECLARATIONS.sub(b"", file.getvalue()))


def name_of(text: str) -> str:
    """A text as a label: in one line, without characters that are no part of an image, and not too long."""
    line = " ".join(_UNPRINTABLE.sub(" ", text).split())
    return line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"


def _recoloured(image: bytes) -> bytes:
    """The same image in the colours of a dark page."""
    dark = {getattr(LIGHT, name).encode(): getattr(_DARK, name).encode() for name in LIGHT.__slots__}
    return re.sub(b"|".join(dark), lambda found: dark[found[0]], image)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep matplotlib's notes from the terminal: that it makes a list of fonts, that its folder is read-only."""
    logger = logging.getLogger("matplotlib")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    # A letter that the measuring font lacks is drawn by the reader's.
    warnings.filterwarnings("ignore", message="Glyph .* missing from")
    try:
        yield
    finally:
        logger.setLevel(before)
