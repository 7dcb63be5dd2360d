"""What a judge format is: it recognises its own prompt and replies in the form which that prompt asks for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from judges.offline.request import Message

GREAT_DOUBT = 2 / 3
"""From this doubt on, a format whose samples may differ gives another verdict than the considered one."""


class JudgeFormat(Protocol):
    """One form of judging. Both methods are pure; neither raises, whatever the text under judgment contains."""

    def matches(self, messages: Sequence[Message]) -> bool:
        """Whether this conversation is a judge prompt of this format."""
        ...

    def reply(self, messages: Sequence[Message], doubt: float = 0.0) -> str:
        """The judge's reply to a conversation that `matches`, without thinking tags.

        `doubt` in [0, 1) is how far this sample strays from the considered verdict, which is that of 0; a format whose
        samples are never compared with one another need not heed it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Personal:
    """The base of a format whose replies depend on who judges: the model's name, empty for nobody in particular."""

    model: str = ""


def judged_by(judge: JudgeFormat, model: str) -> JudgeFormat:
    """The format as the model of this name judges in it: itself, unless its replies depend on that."""
    return replace(judge, model=model) if isinstance(judge, Personal) else judge
