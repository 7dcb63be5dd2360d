"""Groups of rollouts as the monitors see them, from `serve`, `process`, the server or a plugin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from judgegym.judges.core.tasks import JudgeTask


@dataclass(frozen=True, slots=True)
class MonitorRollout:
    """A rollout with its judgment.

    Attributes:
        completion: the text that was judged.
        score: the judgment's score from 0 to 1; `None` if it failed.
        reward: the trainer's reward; `None` if the rollout is masked.
        status: the judgment's status.
        label: the verdict in the judge's terms.
        explanation: the judge's reasons, or why it failed.
        format_fault: the fault of the completion's format; `None` without a fault.
        finish_reason: why the policy stopped; `None` if unknown.
        tokens: the completion's length in tokens; `None` if unknown.
        suspects: tokens and markers of the judge's prompt in the texts under judgment.
        redraws: judge calls beyond the first for a question, made because a text had no verdict.
        parts: contribution of each part of a composite to the reward.
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
    """Rollouts of one prompt.

    Attributes:
        number: its number in the run, from 1, in the order in which groups were judged.
        step: the trainer's step; if unknown, the number of groups before this one.
        uid: the row's uid.
        task: the task of a judge of single responses, without the response: prompt, reference,
            rubric, context.
        rollouts: the completions with their judgments.
        judge_calls: number of calls to the training judge.
        cost: US dollars by role, `judge`, `policy` and maybe `user`; `None` if unknown.
        knows_policy: whether format, finish reason and redraws are known; a reward server does not
            get them.
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
    """Add costs by role; an unknown cost makes its sum unknown."""
    for role, cost in more.items():
        before = total.get(role, 0.0)
        total[role] = None
        if before is not None and cost is not None:
            total[role] = before + cost


def select_verdicts(components: Mapping[str, float]) -> Mapping[str, float]:
    """Return the components of a score that are verdicts from 0 to 1, without raw scores."""
    return {name: value for name, value in components.items() if _is_verdict(name, value)}


def _is_verdict(name: str, value: float) -> bool:
    return 0.0 <= value <= 1.0 and name.rpartition(".")[2] != "raw"
