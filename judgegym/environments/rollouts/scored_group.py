"""Convert a judged group to what the rollout API takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judgegym.engine.completions import Conversation
from judgegym.environments.rollouts.judged_group import GroupRewards, JudgedGroup
from judgegym.environments.rollouts.judged_together import GroupComparison
from judgegym.environments.rollouts.rollout import Rollout
from judgegym.judges.core.group import MemberDetail
from judgegym.judges.core.judgment import Judgment
from judgegym.llm import wire
from judgegym.llm.wire import JSON

ZERO_ADVANTAGE = "set_advantage_to_zero"


@dataclass(frozen=True, slots=True)
class RowOfGroup:
    """The row of a group in a file, which no trainer needs.

    Attributes:
        uid: the row's id.
        group: the group's number in the ledger of calls; those of dropped groups are missing in the file.
        category: the row's category.
        question: what the policy was asked, as a person reads it.
        texts: the row's texts beside the question, by title.
    """

    uid: str
    group: int
    category: str | None
    question: str
    texts: Mapping[str, str]

    def to_json(self, together: GroupComparison | None = None) -> dict[str, JSON]:
        """Return the fields as they are written; with `together`, which judge compared the group, and how it went."""
        row: dict[str, JSON] = {
            "uid": self.uid,
            "group": self.group,
            "category": self.category,
            "question": self.question,
            "texts": dict(self.texts),
        }
        if together is not None:
            row["together"] = {
                "judge": together.judge,
                "anchored": together.anchored,
                "orders_agreed": together.orders.agreed,
                "orders_pairs": together.orders.pairs,
                "calls": together.calls,
                "is_again": together.is_again,
            }
        return row


def scored_group(
    group: JudgedGroup[Any], scores: GroupRewards, *, temperature: float, include_messages: bool
) -> dict[str, JSON]:
    """Return the group as the rollout API takes it.

    Keys: `tokens` and `masks` (G lists each, of equal lengths), `scores` (G finite numbers), `inference_logprobs` if
    the source has them, `overrides` (one object for each rollout) if a score is substituted, `messages` with each
    judgment's explanation (and, of a judge of groups, its `looks`) if they are asked for, `generation_params`.
    `group_overrides` is left out: Atropos calls `.get` on it.

    Source:
        atroposlib 0.4.0, `api/server.py` (ScoredData) and `example_trainer/data.py`.
    """
    sequences = [rollout.sequence for rollout in group.rollouts]
    data: dict[str, JSON] = {
        "tokens": [sequence.tokens for sequence in sequences],
        "masks": [sequence.mask for sequence in sequences],
        "scores": list(scores.values),
        "generation_params": {"temperature": temperature},
    }
    logprobs = [sequence.inference_logprobs for sequence in sequences]
    if None not in logprobs:
        data["inference_logprobs"] = logprobs
    if any(scores.substituted):
        data["overrides"] = [{ZERO_ADVANTAGE: True} if substituted else {} for substituted in scores.substituted]
    if include_messages:
        data["messages"] = [
            _messages(group.conversation, rollout, judgment, score)
            for rollout, judgment, score in zip(group.rollouts, group.judgments, scores.values, strict=True)
        ]
    return data


def packed(group: Mapping[str, JSON]) -> bytes:
    """Return the same JSON as `wire.dumps`, made in pieces: in a thread, the other threads run between them."""
    fields = []
    for name, value in group.items():
        pieces = b"[%b]" % b",".join(map(wire.dumps, value)) if isinstance(value, list) else wire.dumps(value)
        fields.append(b"%b:%b" % (wire.dumps(name), pieces))
    return b"{%b}" % b",".join(fields)


def _messages(
    conversation: Conversation, rollout: Rollout, judgment: Judgment[Any], score: float
) -> list[dict[str, JSON]]:
    turns: list[dict[str, JSON]] = [
        {"role": message["role"], "content": message["content"]} for message in conversation
    ]
    judged: dict[str, JSON] = {
        "status": judgment.status.value,
        "label": judgment.label,
        "explanation": judgment.explanation,
    }
    if isinstance(judgment.detail, MemberDetail):
        judged |= {"own": judgment.detail.own, "looks": [look._asdict() for look in judgment.detail.looks]}
    answer: dict[str, JSON] = {"role": "assistant", "content": rollout.text, "reward": score, "judgment": judged}
    return [*turns, answer]
