"""Draw charts with matplotlib as SVG, one for light and one for dark pages; needs no display.

Guarantees: equal data gives equal bytes. Messages of matplotlib do not reach the terminal. A text
is drawn as it is. Importing matplotlib takes most of a second, so this module imports it when it
draws.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Chart = dict[str, Any]
"""A chart: SVG for `light` and `dark` pages, its `title`, and its `description` in words."""

WIDTH, HEIGHT = 5.6, 3.0
"""Inches."""
TEXT, MUTED, GRID, BAR, ACCENT = "#1f2328", "#59636e", "#d9dee3", "#3f6fb5", "#b4531c"
_DARK = {
    light.encode(): dark
    for light, dark in zip(
        (TEXT, MUTED, GRID, BAR, ACCENT),
        (b"#e6e9ec", b"#a3abb4", b"#3b434c", b"#7fa9e6", b"#f0995f"),
        strict=True,
    )
}

_LONGEST_NAME = 34
_UNPRINTABLE = re.compile(
    r"[^\S ]|[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]"
)
_FONTS = re.compile(rb"(font: [^;\"']*?[\d.]+px )'[^;\"]*(?=[;\"])")
_DECLARATIONS = re.compile(
    rb"<\?xml.*?\?>\s*|<!DOCTYPE.*?>\s*|<metadata>.*?</metadata>\s*", re.DOTALL
)
_DRAWING = Lock()  # matplotlib's settings are global
_STYLE = {
    "svg.fonttype": "none",  # text as text, in the reader's own font
    "svg.hashsalt": "judgegym",  # a fixed salt instead of a random one for the names of parts
    "text.parse_math": False,
    "text.usetex": False,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],  # shipped with matplotlib; used only to measure text
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    **dict.fromkeys(("text.color", "xtick.labelcolor", "ytick.labelcolor"), TEXT),
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), MUTED),
}


@contextmanager
def drawing(title: str, *, height: float = HEIGHT) -> Iterator[tuple[Axes, Chart]]:
    """Yield axes of `height` inches to draw on; at the end of the block the images are added."""
    logger = logging.getLogger("matplotlib")
    with _DRAWING:
        level = logger.level
        logger.setLevel(
            logging.CRITICAL
        )  # it logs about its font cache, whose folder may be read-only
        # A letter that the measuring font lacks is drawn in the reader's font.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        try:
            import matplotlib
            from matplotlib.figure import Figure

            with matplotlib.rc_context():  # restores the user's own settings at the end
                matplotlib.rcdefaults()
                matplotlib.rcParams.update(_STYLE)
                figure = Figure(figsize=(WIDTH, height), layout="constrained")
                file = BytesIO()
                chart: Chart = {"title": title}
                yield figure.add_subplot(), chart
                nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
                figure.savefig(file, format="svg", transparent=True, metadata=nothing)
        finally:
            logger.setLevel(level)
    image = _FONTS.sub(rb"\1system-ui, sans-serif", _DECLARATIONS.sub(b"", file.getvalue()))
    chart |= {
        "light": image,
        "dark": re.sub(b"|".join(_DARK), lambda match: _DARK[match[0]], image),
    }


def clean_label(text: str) -> str:
    """Make a label of a text: on one line, without unprintable characters, shortened."""
    line = " ".join(_UNPRINTABLE.sub(" ", text).split())
    if len(line) <= _LONGEST_NAME:
        return line
    return f"{line[: _LONGEST_NAME - 1]}…"
