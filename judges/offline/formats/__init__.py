"""The judge formats that the stand-in knows.

A new format is a module here and its object in `FORMATS`; for its judges to critique themselves, how its verdicts are
read goes into `judges.offline.formats.critique`.
"""

from judges.offline.formats.arena_hard import ArenaHard
from judges.offline.formats.aspect import Aspect
from judges.offline.formats.base import JudgeFormat, judged_by
from judges.offline.formats.choice import Choice
from judges.offline.formats.critique import Critique
from judges.offline.formats.peer import Peer
from judges.offline.formats.rating import Rating
from judges.offline.formats.rubric import Rubric

# The rating comes last: no system prompt tells it apart, and a text that another format judges may hold its markers.
_JUDGMENTS: tuple[JudgeFormat, ...] = (ArenaHard(), Choice(), Aspect(), Rubric(), Peer(), Rating())
# A critique comes first: it shows the prompt of another format, and more.
FORMATS: tuple[JudgeFormat, ...] = (Critique(known=_JUDGMENTS), *_JUDGMENTS)
"""Asked in this order; the first that matches replies."""

__all__ = ["FORMATS", "JudgeFormat", "judged_by"]
