"""Names as part of other names: of metrics, files and paths."""

from __future__ import annotations

import re


def slug(name: str) -> str:
    """A name as part of a metric's name: in lower case, with `_` for everything but letters, digits, `.` and `-`.

    `Precise IF` becomes `precise_if`.
    """
    return re.sub(r"[^\w.-]+", "_", name.strip().lower()).strip("_") or "unnamed"
