"""What a trainer gets of an environment: rows to ask its policy, and rewards of what the policy has answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from judges.core.judgment import Status
from judges.llm.wire import Message


@dataclass(frozen=True, slots=True)
class Row:
    """A row of an environment.

    Attributes:
        uid: its id, unique in the dataset.
        messages: what the policy is asked, system prompt included.
        question: the text that identifies the row in reports.
        category: for metrics by category.
    """

    uid: str
    messages: tuple[Message, ...]
    question: str
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Rewarded:
    """The reward of one completion.

    Attributes:
        reward: what the completion is worth in training, in the environment's own range; `None` if the judge failed.
        status: how the judgment ended; `INVALID_COMPLETION` has a reward, that of a completion in the wrong format.
        label: the verdict in a word, such as `win`.
        explanation: the judge's reasons; without a verdict, what went wrong.
        metrics: the environment's metrics of this completion alone, finite numbers; empty if the judge failed.
    """

    reward: float | None
    status: Status
    label: str | None = None
    explanation: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_failed(self) -> bool:
        """Whether there is no reward, because of the judge."""
        return self.reward is None

    @property
    def is_invalid(self) -> bool:
        """Whether the completion has the wrong format, so that no judge was asked."""
        return self.status is Status.INVALID_COMPLETION


class NoRewardError(RuntimeError):
    """The judge failed, and the framework takes an error for that; the message says why."""

    def __init__(self, rewarded: Rewarded) -> None:
        """Say how the judgment ended, and why."""
        super().__init__(f"no reward ({rewarded.status.value}): {rewarded.explanation or 'no reason was given'}")
