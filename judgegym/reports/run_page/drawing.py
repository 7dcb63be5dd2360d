"""Draw charts with matplotlib, without pyplot and without a display: an SVG for a light page, and one for a dark page.

Guarantees: equal data gives equal bytes; nothing that matplotlib has to say reaches the terminal; a
text is drawn as it is, whatever is in it. Importing matplotlib takes most of a second, so this
module imports it when it draws.
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
"""A chart as an image: SVG for a `light` and for a `dark` page; its `title`, and what it shows in words."""

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
    "svg.hashsalt": "judgegym",  # names of parts are digests: of the same salt, not of a random one
    "text.parse_math": False,
    "text.usetex": False,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],  # matplotlib brings it along; it is only measured with
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
    """Axes to draw on, `height` inches high; at the end of the block they become the images of the chart."""
    logger = logging.getLogger("matplotlib")
    with _DRAWING:
        level = logger.level
        logger.setLevel(
            logging.CRITICAL
        )  # it makes a list of fonts, and its folder may be read-only
        # A letter that the measuring font lacks is drawn by the reader's.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        try:
            import matplotlib
            from matplotlib.figure import Figure

            with (
                matplotlib.rc_context()
            ):  # what the user has set for charts of their own comes back at its end
                matplotlib.rcdefaults()
                matplotlib.rcParams.update(_STYLE)
                figure, file = Figure(figsize=(WIDTH, height), layout="constrained"), BytesIO()
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
    """Return a text as a label: in one line, without characters that are no part of an image, and not too long."""
    line = " ".join(_UNPRINTABLE.sub(" ", text).split())
    return line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"
