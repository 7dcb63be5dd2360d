"""What a judge said of one trace, and how it is recorded there.

Guarantees: the explanation and the status are in `trace.info["judge_calls"]`, where verifiers records its own judges;
metrics say whether the judge failed and whether the completion was empty or in the wrong format; a failed judge raises,
which verifiers takes for "no reward": the trace is not `ok`, and the reward is `None`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import verifiers.v1 as vf

from judgegym.integrations.scores.scoring import Scored
from judgegym.integrations.single_turn.results import Rewarded
from judges.llm.wire import JSON


class NoRewardError(RuntimeError):
    """The judge failed; the message says how and why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a trace is worth, or why that is not known.

    Attributes:
        reward: `None` if the judge failed.
        status: how the judgment ended.
        label: the verdict in a word, if it has one.
        explanation: the judge's reasons; without a reward, what went wrong.
        is_invalid: whether the completion is empty or in the wrong format, so that no judge was asked.
        metrics: further numbers.
    """

    reward: float | None
    status: str
    label: str | None = None
    explanation: str = ""
    is_invalid: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_score(cls, scored: Scored, *, invalid_completion_score: float) -> Verdict:
        """What a judge of texts said; an empty completion is worth `invalid_completion_score`."""
        reward = invalid_completion_score if scored.is_invalid else scored.score
        return cls(reward, scored.status, scored.label, scored.explanation, scored.is_invalid)

    @classmethod
    def of_environment(cls, rewarded: Rewarded) -> Verdict:
        """What an environment said."""
        return cls(
            rewarded.reward,
            rewarded.status.value,
            rewarded.label,
            rewarded.explanation,
            rewarded.is_invalid,
            rewarded.metrics,
        )

    def error(self) -> NoRewardError:
        """The error that says that there is no reward."""
        return NoRewardError(f"no reward ({self.status}): {self.explanation or 'no reason was given'}")

    def record(self, trace: vf.Trace, name: str, request: Mapping[str, JSON], *, prefix: str = "") -> None:
        """Record this on a trace.

        Args:
            trace: the trace that was judged.
            name: the reward's name.
            request: what the judge was asked.
            prefix: of the names of the metrics.
        """
        parsed = {"score": self.reward, "status": self.status, "label": self.label}
        response = vf.JudgeResponse(text=self.explanation, parsed=parsed)
        trace.record_judge_call(name=name, request=request, response=response)
        flags = {"judge_failed": self.reward is None, "invalid_completion": self.is_invalid}
        trace.record_metrics({f"{prefix}{metric}": value for metric, value in {**self.metrics, **flags}.items()})
