"""What the command prints of a run: the mean score, what went wrong, the cost, where all is, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judgegym.datasets.score.results.numbers import (
    BEST,
    CHOSEN_HIGHER,
    HEADLINE,
    HEADLINE_WORDS,
    INCOMPLETE,
    MARGIN,
    ScoreNumbers,
)
from judgegym.engine.metrics import Metrics
from judgegym.engine.runs.directory import FAILURES, METRICS, REPORT
from judgegym.engine.terminal.output import duration
from judgegym.engine.terminal.progress import rate_words
from judgegym.engine.terminal.summary import (
    Outcome,
    Section,
    Summary,
    SummaryLine,
    cost_lines,
    headline_line,
    latency_words,
    outcome_lines,
)
from judgegym.environments.evaluate.evaluation import FAILURE_WORDS, category_lines
from judgegym.environments.evaluate.saved import Outcomes
from judgegym.judges.core.judgment import Status

_FILES = {
    REPORT: "the page to read",
    FAILURES: "responses without a score, and why",
    METRICS: "all metrics, and how they were measured",
}
_OF_SEVERAL = (("best", "--best"), ("pairs", "--pairs"))
_OF_ONE = (("good", "--threshold", "0.5"),)
_WITHIN_ROWS = (
    Outcome.of("best of a prompt", BEST, unit="number"),
    Outcome.of("chosen − rejected", MARGIN, unit="number"),
    Outcome.of("chosen is higher", CHOSEN_HIGHER),
)


@dataclass(frozen=True, slots=True)
class Part:
    """What this command has done of a run: how long it took, for how many responses, and whether it went on.

    Attributes:
        finish_reasons: how many choices of `policy` and `judge` ended with each finish reason.
    """

    seconds: float
    responses: int
    is_resumed: bool
    finish_reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def failed(outcomes: Outcomes) -> int:
    """How many responses have no score although there was something to judge."""
    return sum(outcomes.statuses[status] for status in FAILURE_WORDS)


def summary_of(
    title: str, numbers: ScoreNumbers, outcomes: Outcomes, part: Part, run: Path, notices: Sequence[str]
) -> Summary:
    """What is printed.

    Args:
        title: what was judged, and by whom.
        numbers: the results.
        outcomes: how the responses ended.
        part: what this command has done.
        run: the run directory.
        notices: what a reader of the numbers must know.
    """
    metrics, count = numbers.metrics, outcomes.rows
    counted = count - failed(outcomes)
    of = f"{counted:,} of {count:,} responses" if counted < count else f"{count:,} responses"
    since = "since it was resumed" if part.is_resumed else ""
    rate = rate_words(part.responses / part.seconds, "responses") if part.seconds else ""
    remark = "; ".join(filter(None, (since, rate, latency_words(metrics, "eval"))))
    return Summary(
        title=title,
        headline=headline_line(metrics, f"eval/{HEADLINE}", HEADLINE_WORDS, of=of, counted=counted),
        sections=(
            Section("scores", [*_distribution(metrics)]),
            Section("several responses to a prompt", [*_within_rows(metrics)]),
            Section("categories", category_lines(numbers.categories)),
            Section("went wrong", [*_faults(metrics, outcomes, run)], is_alarm=True),
            Section("cost", cost_lines(metrics, "eval")),
            Section("time", [SummaryLine("", duration(part.seconds), remark)]),
        ),
        notices=notices,
    )


def _distribution(metrics: Metrics) -> Iterator[SummaryLine]:
    names = ("median", "p25", "p75", "min", "max")
    found = [metrics.values.get(f"eval/score_{name}") for name in names]
    median, lower, upper, least, most = found
    if median is not None:
        yield SummaryLine(
            "median", f"{median:.4f}", f"the middle half {lower:.4f} to {upper:.4f}, all {least:.4f} to {most:.4f}"
        )
    equal = metrics.values["eval/equal_responses"]
    if equal:
        yield SummaryLine("equal", f"{equal:,}", "responses that share the judgment of an equal one")


def _within_rows(metrics: Metrics) -> Iterator[SummaryLine]:
    yield from outcome_lines(_WITHIN_ROWS, metrics, "eval", faults=False)
    incomplete = metrics.values.get(f"eval/{INCOMPLETE}")
    if incomplete:
        yield SummaryLine("left out of these", f"{incomplete:,}", "prompts of which a response has no score")


def _faults(metrics: Metrics, outcomes: Outcomes, run: Path) -> Iterator[SummaryLine]:
    """What went wrong, each only above 0."""
    for status, words in FAILURE_WORDS.items():
        if outcomes.statuses[status]:
            where = f"responses have no score; they are in {run / FAILURES}"
            yield SummaryLine(words, f"{outcomes.statuses[status]:,}", where)
    empty = outcomes.statuses[Status.INVALID_COMPLETION.value]
    if empty:
        what = "empty" if metrics.values.get("eval/policy_calls") is None else "empty, malformed or refusals"
        yield SummaryLine("invalid", f"{empty:,}", f"responses are {what}: no score, and 0 in the mean")
    bad = metrics.values["eval/bad_rows"]
    if bad:
        yield SummaryLine("bad rows", f"{bad:,}", f"rows could not be judged; {run.stem}.quarantine.jsonl says why")
    suspects = metrics.values.get("eval/judge_injection_suspects", 0)
    if suspects:
        yield SummaryLine(
            "suspects", f"{suspects:,}", "tokens or markers of the judge's prompt, in texts under judgment"
        )


def too_many_failures(outcomes: Outcomes, highest: float) -> str | None:
    """Why the command must fail, if more responses failed than `max_judge_error_rate` allows."""
    count = failed(outcomes)
    if not outcomes.rows or count / outcomes.rows <= highest:
        return None
    return (
        f"{count:,} of {outcomes.rows:,} responses have no score ({count / outcomes.rows:.1%}); --max_judge_error_rate "
        f"allows {highest:.1%}. The last error: {outcomes.last_error}"
    )


def selecting(out: Path, *, is_several: bool) -> list[str]:
    """Commands that select from a file, each into a folder of its own, where its card is not in the way of another's.

    Args:
        out: the file of the scored rows.
        is_several: there are several responses to a prompt, which were judged together or stand in one row.
    """
    rules = _OF_SEVERAL if is_several else _OF_ONE
    targets = [(str(out.parent / folder / f"train{out.suffix}"), rule) for folder, *rule in rules]
    return [shlex.join(["judgegym", "select", str(out), "--out", target, *rule]) for target, rule in targets]


def what_is_where(out: Path, run: Path | None, then: Sequence[str]) -> list[str]:
    """Where the file and the run are, what in it is for people, and what to type next, in lines.

    Args:
        out: the file of the scored rows.
        run: the run directory, if there is one.
        then: commands that go on from here.
    """
    said = [f"The scored rows are in {out}"]
    if run is not None:
        there = [name for name in _FILES if (run / name).exists() and (run / name).stat().st_size]
        said += [f"The run is in {run}", *(f"  {name:<14}  {_FILES[name]}" for name in there)]
    commands = [] if run is None or (run / REPORT).exists() else [shlex.join(["judgegym", "report", str(out)])]
    commands += then
    return [*said, *(["Next:"] if commands else []), *(f"  {command}" for command in commands)]
