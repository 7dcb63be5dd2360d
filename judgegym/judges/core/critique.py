"""A request to critique and revise one verdict of a judgment.

A judge that supports self-critique makes such a request for each of its verdicts, and applies the revisions
(`judgegym.judges.core.judge.CritiqueableJudge`). Most build the prompt with `critique_messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from judgegym.judges import prompts
from judgegym.judges.core.calls import NoVerdict
from judgegym.judges.core.delimiters import Lookalikes, delimit
from judgegym.judges.core.judgment import JudgeCall
from judgegym.judges.parsing.verdict_form import VerdictForm
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.llm.wire import JSON, Choice, Message

VerdictT = TypeVar("VerdictT")
ShownVerdict: TypeAlias = "str | int | float"
"""A verdict as the history of a critique shows it."""

_LOOKALIKES = Lookalikes("your previous evaluation")


class Revision(NamedTuple):
    """A revised verdict as the history shows it, its reasons, and the critique before them."""

    verdict: ShownVerdict
    reasoning: str
    critique: str


@dataclass(frozen=True)  # no slots: a generic class with them cannot be called as Class[T](…)
class CritiqueRequest(Generic[VerdictT]):
    """A request to critique and revise one verdict of a judgment.

    Attributes:
        component: which verdict of the judgment, such as `game_1`; empty where there is only one.
        verdict: the verdict before the critique.
        reasoning: its reasons.
        messages: the request to critique and revise it.
        read: reads the revised verdict from an answer; `NoVerdict` says why there is none.
        revision: makes the history's entry of a call that has a revised verdict.
        extra: further fields of the request.
        form: the form that the answer is to have, critique and all, if not that of the messages alone.
    """

    component: str
    verdict: ShownVerdict
    reasoning: str
    messages: Sequence[Message]
    read: Callable[[Choice], ParsedVerdict[VerdictT] | NoVerdict | None]
    revision: Callable[[JudgeCall[VerdictT]], Revision]
    extra: Mapping[str, JSON] = field(default_factory=dict)
    form: VerdictForm | None = None

    def held_to(self, form: VerdictForm | None) -> CritiqueRequest[VerdictT]:
        """The request with the form of the verdict; the critique comes before it."""
        return self if form is None else replace(self, form=form.with_critique())


def critique_messages(prompt: Sequence[Message], text: str) -> list[Message]:
    """The prompt of a critique: what the judge was shown, its evaluation, and the request to critique and revise it.

    It begins with the judge's prompt, unchanged, which a server with a prefix cache has computed already.

    Args:
        prompt: the judge's prompt; its last message is the user's.
        text: the judge's answer, without its thinking.
    """
    *before, last = prompt
    delimited = delimit((text,), _LOOKALIKES, delimited=(last["content"],))
    markers, (shown,) = delimited.markers, delimited.texts
    parts = [
        last["content"],
        f"{markers.notice}{markers.title('YOUR PREVIOUS EVALUATION')}\n{shown}\n"
        f"{markers.title('END OF YOUR PREVIOUS EVALUATION')}",
        prompts.load("critique"),
    ]
    return [*before, Message(role="user", content="\n\n".join(parts))]
