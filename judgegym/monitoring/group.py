"""What the monitors see of a group of rollouts, whoever trains: `serve`, `process`, the reward server or a plugin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from judgegym.judges.core.tasks import JudgeTask


@dataclass(frozen=True, slots=True)
class MonitorRollout:
    """One rollout with its judgment.

    Attributes:
        completion: the text that was judged.
        score: the judgment's score from 0 to 1; `None` if it failed.
        reward: what the trainer gets; `None` if the rollout is masked.
        status: of the judgment.
        label: the verdict in the judge's terms.
        explanation: the judge's reasons, or why it failed.
        format_fault: what is wrong with the completion's format; `None` if nothing is.
        finish_reason: why the policy stopped; `None` if that is not known.
        tokens: the completion's length in tokens; `None` if that is not known.
        suspects: tokens and markers of the judge's prompt in the texts under judgment.
        redraws: judge calls beyond the first of a question, because a text held no verdict.
        parts: what each part of a composite adds to the reward.
        criteria: the verdict on each criterion or aspect, from 0 to 1, of a judge that has several.
    """

    completion: str
    score: float | None
    reward: float | None
    status: str = "ok"
    label: str | None = None
    explanation: str = ""
    format_fault: str | None = None
    finish_reason: str | None = None
    tokens: int | None = None
    suspects: int = 0
    redraws: int = 0
    parts: Mapping[str, float] = field(default_factory=dict)
    criteria: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MonitorGroup:
    """The rollouts of one prompt.

    Attributes:
        number: groups are counted from 1, in the order in which they were judged.
        step: the trainer's step; where it is not known, the number of groups before this one.
        uid: of the row.
        task: what a judge of single responses needs beside the response: prompt, reference, rubric,
            context.
        rollouts: the completions with their judgments.
        judge_calls: calls to the training judge.
        cost: US dollars by role, `judge`, `policy` and maybe `user`; `None` if it is not known.
        knows_policy: whether format, finish reason and redraws are known; a reward server is not
            told of them.
        ledger: its number in the ledger of calls; `None` without one.
    """

    number: int
    step: int
    uid: str
    task: JudgeTask
    rollouts: tuple[MonitorRollout, ...]
    judge_calls: int = 0
    cost: Mapping[str, float | None] = field(default_factory=dict)
    ledger: int | None = None
    knows_policy: bool = True


def add_costs(total: dict[str, float | None], more: Mapping[str, float | None]) -> None:
    """Add costs by role; one that is not known makes its sum unknown."""
    for role, cost in more.items():
        before = total.get(role, 0.0)
        total[role] = None if before is None or cost is None else before + cost


def select_verdicts(components: Mapping[str, float]) -> Mapping[str, float]:
    """Return those of the numbers behind a score that are verdicts from 0 to 1, and not on a scale of their own."""
    return {
        name: value
        for name, value in components.items()
        if 0.0 <= value <= 1.0 and name.rpartition(".")[2] != "raw"
    }
