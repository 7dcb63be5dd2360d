"""A verdict as its judge can be asked to reconsider it.

A judge that can be wrapped in `judges.core.self_critique` says what opinions a judgment consists of, and puts
revised ones back into it. How the question is put is the judge's business; most use `critique_messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from judges import prompts
from judges.core.calls import NoVerdict
from judges.core.delimiters import delimiters_for
from judges.core.judgment import JudgeCall, Judgment
from judges.llm.client import ChatClient
from judges.llm.wire import JSON, Choice, Message

CaseP = ParamSpec("CaseP")
DetailT = TypeVar("DetailT")
Verdict: TypeAlias = "str | int | float"

_LOOKALIKES = ("your previous evaluation",)


class Revision(NamedTuple):
    """A revised verdict, its reasons, and the critique ahead of them."""

    verdict: Verdict
    reasoning: str
    critique: str


@dataclass(frozen=True, slots=True)
class CritiqueRequest:
    """One verdict of a judgment.

    Attributes:
        component: which one, such as `game_1`; empty where there is only one.
        verdict: what it says, as a revised one would say it.
        reasoning: its reasons.
        messages: the request to critique and revise it.
        read: whether there is a revised verdict in an answer.
        revision: the revised verdict with its reasons, from a call that has one.
        extra: further fields of the request.
    """

    component: str
    verdict: Verdict
    reasoning: str
    messages: Sequence[Message]
    read: Callable[[Choice], Verdict | NoVerdict | None]
    revision: Callable[[JudgeCall], Revision]
    extra: Mapping[str, JSON] = field(default_factory=dict)


class CritiqueableJudge(Protocol[CaseP, DetailT]):
    """A judge whose judgments can be reconsidered."""

    @property
    def client(self) -> ChatClient:
        """The judge model."""

    async def judge(self, *args: CaseP.args, **kwargs: CaseP.kwargs) -> Judgment[DetailT]:
        """Judge a case."""

    def critique_requests(
        self, judgment: Judgment[DetailT], *args: CaseP.args, **kwargs: CaseP.kwargs
    ) -> list[CritiqueRequest]:
        """The verdicts of a judgment with a score on that case."""

    def apply_revisions(
        self, judgment: Judgment[DetailT], revisions: Mapping[str, JudgeCall], *args: CaseP.args, **kwargs: CaseP.kwargs
    ) -> Judgment[DetailT]:
        """The judgment with some of its verdicts replaced by those of calls, by component; each call has a value."""


def critique_messages(shown: Sequence[Message], text: str) -> list[Message]:
    """What a judge is asked: what it was shown, its evaluation, and to critique and revise it.

    Args:
        shown: the judge's prompt; its last message is the user's.
        text: what the judge answered, after its thinking.
    """
    *before, last = shown
    markers = delimiters_for((last["content"], text), _LOOKALIKES)
    parts = [
        last["content"],
        f"{markers.title('YOUR PREVIOUS EVALUATION')}\n{text}\n{markers.title('END OF YOUR PREVIOUS EVALUATION')}",
        prompts.load("critique"),
    ]
    return [*before, Message(role="user", content=markers.notice + "\n\n".join(parts))]
