"""The judge formats that the stand-in knows. A new format is a module here and its object in `FORMATS`."""

from judges.offline.formats.arena_hard import ArenaHard
from judges.offline.formats.base import JudgeFormat

FORMATS: tuple[JudgeFormat, ...] = (ArenaHard(),)
"""Asked in this order; the first that matches replies."""

__all__ = ["FORMATS", "JudgeFormat"]
