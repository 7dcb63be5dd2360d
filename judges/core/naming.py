"""Names as part of other names: of metrics, files and paths."""

from __future__ import annotations

import re


def slug(name: str) -> str:
    """A name as part of a metric's name: lower case, everything but letters, digits, `.` and `-` as `_`.

    `Precise IF` becomes `precise_if`.
    """
    return re.sub(r"[^\w.-]+", "_", name.strip().lower()).strip("_") or "unnamed"
