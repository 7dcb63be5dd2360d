"""The judge formats that the stand-in knows. A new format is a module here and its object in `FORMATS`."""

from judges.offline.formats.arena_hard import ArenaHard
from judges.offline.formats.aspect import Aspect
from judges.offline.formats.base import JudgeFormat
from judges.offline.formats.choice import Choice
from judges.offline.formats.rating import Rating
from judges.offline.formats.rubric import Rubric

# The rating comes last: no system prompt tells it apart, and a text that another format judges may hold its markers.
FORMATS: tuple[JudgeFormat, ...] = (ArenaHard(), Choice(), Aspect(), Rubric(), Rating())
"""Asked in this order; the first that matches replies."""

__all__ = ["FORMATS", "JudgeFormat"]
