"""The reward of a completion in training, from a judge of texts or from an environment.

Guarantees: a failed judge has no reward; its `score`, for trainers that accept only numbers, is
marked in `flags`; an empty completion is no failed judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from judgegym.llm.errors import SettingsError
from judgegym.statistics.agreement import exact_mean

OK = "ok"
JUDGE_FAILED = "judge_failed"
INVALID_COMPLETION = "invalid_completion"
REFUSED = "refused"
MAX_FAILURES = 32
"""After this many failed judgments in a row, or two groups, masked training is stopped."""
REFUSED_AT_START = 8
_REJECTION = re.compile(
    r": rejected( HTTP (?P<status>\d+))? after \d+ request| rejected the first \d+ requests: HTTP "
    r"(?P<of_all>\d+): "
)
"""Pattern of the endpoint's `EndpointError` or `EndpointOutage` in a judgment's explanation."""


class RefusedError(ValueError):
    """Completions cannot be judged, as without a baseline or with a rubric of another scale.

    The message has the reason.
    """


class NoRewardError(RuntimeError):
    """The judge failed, for frameworks that expect an error then; the message has the reason."""


@dataclass(frozen=True, slots=True)
class CompletionReward:
    """The reward of a completion, from a judge or an environment.

    Attributes:
        reward: a judge's score from 0 to 1, or an environment's reward in its own range; `None` if
            the judge failed, or if an empty completion shall have none.
        status: how the judgment ended, or `refused` for a row that cannot be judged.
        label: the verdict in the judge's terms, if it is one word, such as `win`.
        explanation: the judge's reasons; without a verdict, the error.
        metrics: the environment's metrics of this completion, finite numbers; empty if the judge
            failed.
        instead: the number for a trainer that knows no missing reward.
    """

    reward: float | None
    status: str
    label: str | None = None
    explanation: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    instead: float = field(default=0.0, compare=False)

    @property
    def score(self) -> float:
        """The reward, or the finite number in its place."""
        if self.reward is None:
            return self.instead
        return self.reward

    @property
    def is_invalid(self) -> bool:
        """Whether the completion is empty or in the wrong format, so that no judge was called."""
        return self.status == INVALID_COMPLETION

    @property
    def is_failed(self) -> bool:
        """Whether a completion that could be judged has no reward."""
        return self.reward is None and not self.is_invalid

    @property
    def refusal(self) -> str:
        """The reason why retrying cannot help: a refused row or request; otherwise empty."""
        is_refusal = self.status == REFUSED or (
            self.is_failed and _REJECTION.search(self.explanation) is not None
        )
        if is_refusal:
            return self.explanation
        return ""

    @property
    def is_unauthorized(self) -> bool:
        """Whether the judge's endpoint rejects the key or the model, as for every other request."""
        match = None
        if self.is_failed:
            match = _REJECTION.search(self.explanation)
        return match is not None and (match["status"] or match["of_all"]) in ("401", "403", "404")

    @property
    def flags(self) -> dict[str, float]:
        """The flags, 1 or 0, for trainers that log numbers; all completions have the same keys."""
        return {"judge_failed": float(self.is_failed), "invalid_completion": float(self.is_invalid)}

    @property
    def outcome(self) -> dict[str, str | None]:
        """Status, label and explanation of the judgment."""
        return {"status": self.status, "label": self.label, "explanation": self.explanation}

    def error(self) -> NoRewardError:
        """Make the error of a missing reward."""
        return NoRewardError(
            f"no reward ({self.status}): {self.explanation or 'no reason was given'}"
        )

    @property
    def numbers(self) -> dict[str, float]:
        """The score and its flags; all completions have the same keys."""
        return {"score": self.score, **self.flags}

    def or_else(self, instead: float) -> CompletionReward:
        """Return a copy with this score in place of a missing reward."""
        return replace(self, instead=instead)


def make_failures(
    explanation: str, count: int = 1, status: str = JUDGE_FAILED
) -> list[CompletionReward]:
    """Return `count` results without a reward."""
    return [CompletionReward(None, status, explanation=explanation)] * count


class FailureStreak:
    """Stops a training whose judge is down, where failed samples are masked.

    A batch of masked samples has no token left, and trainers divide by the number of tokens: the
    loss would be NaN. Where it is 0 instead, training would continue for nothing.
    """

    def __init__(self) -> None:
        """Start at zero."""
        self._count = 0

    def add(self, result: CompletionReward, group_size: int) -> None:
        """Count a judgment; allow fewer than `MAX_FAILURES` failures in a row, or two groups.

        Raises:
            NoRewardError: too many judgments failed in a row.
        """
        self._count = self._count + 1 if result.is_failed else 0
        if self._count >= max(MAX_FAILURES, 2 * group_size):
            reason = result.explanation or "no reason was given"
            raise NoRewardError(
                f"the judge failed for {self._count} samples in a row, last with: {reason}"
            )


class FirstRequests:
    """Detects that all first requests are refused: then the settings are wrong, not the rows.

    Completions of one prompt show the judge the same prompt, which alone may be at fault; in a
    batch they count as one. Refusals arrive before verdicts: a call in progress is a `with` block,
    and the check waits for its end.
    """

    def __init__(self) -> None:
        """Start without requests."""
        self._refused = self._under_way = 0
        self._is_proven = False

    def __enter__(self) -> None:
        """Begin a call."""
        self._under_way += 1

    def __exit__(self, *_: object) -> None:
        """End a call."""
        self._under_way -= 1

    def add(self, results: Sequence[CompletionReward]) -> str:
        """Read the results of a request; return why it was refused, or an empty text.

        Raises:
            SettingsError: the judge's endpoint rejects the key or the model.
        """
        if any(result.status == OK for result in results):
            self._is_proven = True
        refusal = next((reward.refusal for reward in results if reward.refusal), "")
        if not self._is_proven and any(scored.is_unauthorized for scored in results):
            raise SettingsError(f"the judge's endpoint refuses its requests: {refusal}")
        return refusal

    def check(self, batch: Iterable[tuple[object, Sequence[CompletionReward]]]) -> None:
        """Count the requests of a whole batch, each with its prompt and its results.

        Raises:
            SettingsError: no request has a score so far, and this whole batch of several prompts,
                or `REFUSED_AT_START` requests, were refused; or see `add`.
        """
        if self._is_proven:
            return
        added = [(repr(prompt), self.add(results)) for prompt, results in batch]
        refused = {prompt: refusal for prompt, refusal in added if refusal}
        self._refused += len(refused)
        is_whole = len(refused) > 1 and all(refusal for _, refusal in added)
        is_enough = bool(refused) and self._refused >= REFUSED_AT_START and not self._under_way
        if not self._is_proven and (is_whole or is_enough):
            last = list(refused.values())[-1]
            raise SettingsError(
                f"the first {self._refused} requests for a score were refused: {last}"
            )


def substitute_reward(rewards: Sequence[float | None], fallback: float) -> float:
    """Return the group's mean for a missing reward: it keeps the others' distances from it.

    Args:
        rewards: the group's rewards, including the missing one.
        fallback: the substitute if the group has no reward.
    """
    available = [reward for reward in rewards if reward is not None]
    if available:
        return exact_mean(available)
    return fallback
