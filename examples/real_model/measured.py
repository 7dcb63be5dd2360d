"""The numbers of a finished run: rows, verdicts, failures by kind, headline, calls, tokens, time.

They are read from the run directory alone, so that the table can be remade from earlier runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from judgegym.engine.terminal.summary import ROLES
from judgegym.judges.core.judgment import Status
from judgegym.llm.usage import Usage
from judgegym.reports.results.run import RunHeadline, SavedRun

_FAILURES: Mapping[str, str] = {
    Status.JUDGE_FAILED.value: "judge failed",
    Status.UNPARSABLE.value: "no verdict",
    "policy_failed": "policy failed",
    "user_failed": "user failed",
    Status.INVALID_COMPLETION.value: "malformed answer",
}


@dataclass(frozen=True, slots=True)
class RunNumbers:
    """The numbers of one run.

    Attributes:
        rows: the number of selected rows.
        verdicts: the number of rows with a score from a verdict.
        failures: the numbers of the other rows by kind.
        headline: the result with its interval; `None` if the run has none.
        calls: the calls of policy, judge and simulated user together.
        tokens_in: the prompt tokens of all calls.
        tokens_out: the completion tokens of all calls.
        longest: the tokens of the longest prompt with its answer.
        seconds: the duration of the evaluation; 0 if nothing succeeded.
    """

    rows: int
    verdicts: int
    failures: Mapping[str, int]
    headline: RunHeadline | None
    calls: int
    tokens_in: int
    tokens_out: int
    longest: int
    seconds: float

    @classmethod
    def read(cls, path: Path) -> RunNumbers:
        """Read a run directory.

        Raises:
            RunDirectoryError: there is no run, or it is damaged.
        """
        run = SavedRun.open(path)
        statuses, longest, spent = Counter[str](), 0, list[Usage]()
        for sample in run.samples():
            statuses[sample.status] += 1
            judge_calls = (sample.run.judge_calls or {}).values()
            for call in (*sample.run.policy_calls, *judge_calls, *sample.run.user_calls):
                spent.append(call.usage)
                longest = max(longest, call.usage.prompt_tokens + call.usage.completion_tokens)
        verdicts = statuses.pop(Status.OK.value, 0)
        if run.is_complete:
            calls = _sum(run, "calls")
            tokens_in = _sum(run, "prompt_tokens")
            tokens_out = _sum(run, "completion_tokens")
        else:  # without metrics, since nothing succeeded; the rows have their usage
            calls = len(spent)
            tokens_in = sum(usage.prompt_tokens for usage in spent)
            tokens_out = sum(usage.completion_tokens for usage in spent)
        return cls(
            rows=verdicts + statuses.total(),
            verdicts=verdicts,
            failures={_FAILURES.get(status, status): count for status, count in statuses.items()},
            headline=run.headline,
            calls=calls,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            longest=longest,
            seconds=float(str(run.general.get("total_evaluation_time_seconds") or 0)),
        )

    @property
    def result(self) -> str:
        """The headline with its interval, in words."""
        headline = self.headline
        if headline is None:
            return "none"
        interval = headline.interval
        bounds = "" if interval is None else f" ({interval.low:.3f} to {interval.high:.3f})"
        return f"{headline.words} {headline.value:.3f}{bounds}"

    @property
    def failed(self) -> str:
        """The failures by kind, in words."""
        return ", ".join(f"{count} {kind}" for kind, count in self.failures.items()) or "none"


def _sum(run: SavedRun, name: str) -> int:
    """Add up a metric of all roles."""
    return sum(int(run.metrics.get(f"eval/{who}_{name}") or 0) for who in ROLES)
