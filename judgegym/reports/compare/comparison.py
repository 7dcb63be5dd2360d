"""Compare runs on the rows that they share; the first run is the reference.

Guarantees: a row counts only if every run has a value for it, and rows that are left out are
counted. Runs whose judge, protocol or data differ are refused unless that is allowed. Memory holds
numbers, and no text of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from itertools import chain, combinations
from string import ascii_uppercase
from typing import Any

from judgegym.llm import wire
from judgegym.llm.errors import UserError
from judgegym.reports.compare.conditions import (
    CONDITIONS,
    Condition,
    ConditionDifference,
    find_condition_differences,
    list_notes,
    policy_is_judge,
)
from judgegym.reports.compare.corrected import corrected_numbers
from judgegym.reports.compare.difference import Pair
from judgegym.reports.compare.gold import check_same_gold, compare_with_gold, read_gold_labels
from judgegym.reports.compare.rows import CommonRows, RunRows, select_common_rows, shorten_text
from judgegym.reports.compare.succession import (
    SuccessionOptions,
    check_succession,
    measure_succession,
)
from judgegym.reports.labels.file import Labels
from judgegym.reports.results.run import SavedRun, classify_metric
from judgegym.statistics.intervals import Ends, find_ends
from judgegym.statistics.paired import holm

Comparison = dict[str, Any]
"""The content of `--json`, from which terminal and page are rendered (`compare_runs`)."""
LEVEL = 0.95


class NotComparableError(UserError):
    """Runs cannot be compared: they measured different things, or under different conditions.

    Attributes:
        conditions: the differing conditions that could be allowed; empty if nothing makes the runs
            comparable.
    """

    def __init__(self, message: str, conditions: Sequence[Condition] = ()) -> None:
        """Set the message and the conditions."""
        super().__init__(message)
        self.conditions = tuple(conditions)


def compare_runs(
    runs: Sequence[SavedRun],
    *,
    across: Collection[Condition] = (),
    rounds: int = 10_000,
    seed: int = 0,
    most: int = 10,
    with_gold: bool = False,
    labels: Sequence[Labels] = (),
    succession: SuccessionOptions | None = None,
) -> Comparison:
    """Compare each further run with the first one.

    Args:
        runs: two or more complete runs of one environment.
        across: conditions that may differ. With `judge`, the agreement of the judges is reported.
            The judges of scored data sets may always differ.
        rounds: number of bootstrap resamples for the intervals of kappa.
        seed: the seed of the resamples.
        most: how many of the most changed rows are named.
        with_gold: also compare each run with the gold labels of the rows.
        labels: human labels, for each run or once for all, which correct the results and their
            differences.
        succession: also report what changes if the second run's judge replaces the first run's.

    Returns:
            The number of compared `rows`; for each of `runs` the headline over them, and how many
            rows are left out and why; a difference for each further run (`Pair.difference`), its
            p-values corrected over all runs; `differing` conditions that were allowed, and `notes`.
            `unit` is the unit of intervals: a row, or a prompt with dependent responses.

    Raises:
            NotComparableError: the runs are of different environments or metrics, share no row, or
                differ in a condition that is not allowed to differ.
            RunDirectoryError: a run cannot be read.
            DataError: labels belong to another run.
            UserError: a succession is not of two runs, or their judges saw other completions.
    """
    headline, words = _headline(runs)
    reference = runs[0]
    if reference.is_scored or succession is not None:  # judges of the same responses
        across = {*across, "judge"}
    rows = [RunRows(run) for run in runs]
    common = select_common_rows(rows)
    if not common.uids:
        paths = " and ".join(str(run.path) for run in runs)
        raise NotComparableError(f"{paths} share no row that has a judgment")
    if succession is not None:
        check_succession(runs, common)
    letters = assign_letters(runs)
    differing = list[ConditionDifference]()
    for index in range(1, len(runs)):
        differing += _list_differences(runs, index, letters[index], common)
    _check_allowed(runs, letters, differing, across)
    settings = {"rounds": rounds, "seed": seed, "level": LEVEL}
    kind = classify_metric(headline, words, common.sides)
    ends = _find_scale_ends(runs, common)
    pairs = [Pair(common, index, kind, LEVEL, ends) for index in range(1, len(runs))]
    differences = [
        pair.difference(letter, most=most, with_agreement="judge" in across and same != 0)
        for pair, letter, same in zip(pairs, letters[1:], common.same_answers[1:], strict=True)
    ]
    _add_questions(reference, differences)
    _correct_p_values(differences)
    unit = "row"
    if common.units is not None:
        unit = "prompt"
        if common.is_scored and len({*common.units.tolist()}) == len(common.uids):
            unit = "response"
    prompts = None
    if common.units is not None:
        prompts = dict(zip(common.uids, common.units.tolist(), strict=True))
    gold = None
    if with_gold:
        gold_labels = [read_gold_labels(run, common.uids) for run in runs]
        check_same_gold(runs, gold_labels)
        gold = compare_with_gold(gold_labels, letters, settings, prompts=prompts)
    measured = None
    if succession is not None:
        measured = measure_succession(
            runs, rows[0], common, pairs[0], kind, LEVEL, ends, succession
        )
    intervals = [pair.intervals and pair.intervals.second for pair in pairs]
    intervals.insert(0, pairs[0].intervals and pairs[0].intervals.first)
    return {
        "environment": reference.environment,
        "metric": headline,
        "words": words,
        "kind": kind,
        "rows": len(common.uids),
        "runs": [
            {
                "letter": letter,
                "path": str(run.path),
                "policy": run.policy,
                "judge": run.judge,
                "date": f"{run.date:%Y-%m-%d %H:%M}",
                "rows": len(run_rows),
                "failed": run_rows.failed,
                "uncounted": run_rows.uncounted,
                "not_shared": len(run_rows.positions) - len(common.uids),
                "headline": side.ratio,
                "interval": interval,
            }
            for letter, run, run_rows, side, interval in zip(
                letters, runs, rows, common.sides, intervals, strict=True
            )
        ],
        "differences": differences,
        "across": [condition for condition in CONDITIONS if condition in across],
        "differing": differing,
        "notes": _notes(runs, letters, common, across),
        "settings": settings,
        "intervals": "mid-P" if ends is not None else "Student's t",
        "item": reference.items[:-1],
        "unit": unit,
        "gold": gold,
        "corrected": corrected_numbers(runs, letters, labels, common, kind) if labels else None,
        "succession": measured,
    }


def assign_letters(runs: Sequence[object]) -> list[str]:
    """Return the names of runs in tables: A to Z, then R27 and so on."""
    return [*ascii_uppercase, *(f"R{number}" for number in range(27, len(runs) + 1))][: len(runs)]


def _headline(runs: Sequence[SavedRun]) -> tuple[str, str]:
    """Return the metric of all runs and its label.

    Raises:
        NotComparableError: there are fewer than two runs, a run is given twice or unfinished, or
            the runs measured different things.
    """
    if len(runs) < 2:
        raise NotComparableError(
            "expected two runs or more; the first is the one that the others are compared with"
        )
    for left, right in combinations(runs, 2):
        if left.path.resolve() == right.path.resolve():
            raise NotComparableError(f"{left.path} is given twice")
    first = runs[0]
    metric = str(first.general.get("headline"))
    for run in runs:
        if not run.is_complete:
            raise NotComparableError(
                f"{run.path} is not finished (--resume it first), or no run of evaluate: it has no "
                "metrics.json"
            )
    for run in runs[1:]:
        if run.environment != first.environment:
            raise NotComparableError(
                f"{first.path} is a run of {first.environment}, {run.path} one of {run.environment}"
            )
        if (other_metric := str(run.general.get("headline"))) != metric:
            raise NotComparableError(
                f"the result of {first.path} is {metric}, that of {run.path} is {other_metric}"
            )
    return metric, first.headline.words if first.headline is not None else metric


def _list_differences(
    runs: Sequence[SavedRun], index: int, letter: str, common: CommonRows
) -> Iterator[ConditionDifference]:
    """Yield where a run's conditions, and the texts of shared rows, differ from the reference."""
    yield from find_condition_differences(runs[0], runs[index], letter)
    others = common.texts_differ[index]
    if others:
        samples = [run.read_sample(others[0]) for run in (runs[0], runs[index])]
        first, second = ({"question": sample.question, **sample.texts} for sample in samples)
        title = next(
            (title for title in {**first, **second} if first.get(title) != second.get(title)),
            "texts",
        )
        name = (
            f"texts of {len(others)} of {len(common.uids)} rows, such as the {title} of {others[0]}"
        )
        before, after = (shorten_text(texts.get(title, "none")) for texts in (first, second))
        yield ConditionDifference("data", letter, name, before, after)


def _check_allowed(
    runs: Sequence[SavedRun],
    letters: Sequence[str],
    differs: Sequence[ConditionDifference],
    across: Collection[Condition],
) -> None:
    """Refuse a comparison under conditions that differ without being allowed to.

    Raises:
        NotComparableError: conditions differ; names each with both values, and the flags.
    """
    refused = [difference for difference in differs if difference.condition not in across]
    if not refused:
        return
    conditions = [
        condition
        for condition in CONDITIONS
        if any(difference.condition == condition for difference in refused)
    ]
    names = " and ".join(conditions)
    lines = [f"the runs differ in {names}, which may be why their results differ:"]
    lines += [f"  {letter}: {run.path}" for letter, run in zip(letters, runs, strict=True)]
    lines += [f"  {difference.condition}: {difference}" for difference in refused]
    plurals = [name if name == "data" else f"{name}s" for name in conditions]
    flags = " ".join(f"--across_{plural}" for plural in plurals)
    raise NotComparableError(
        "\n".join([*lines, f"to compare them all the same: {flags}"]), conditions
    )


def _add_questions(reference: SavedRun, differences: Sequence[dict[str, Any]]) -> None:
    """Add the beginning of its question to each changed row; all rows are read in one pass."""
    changed = [*chain.from_iterable(difference["changed"] for difference in differences)]
    uids = frozenset(row["uid"] for row in changed)
    starts = {sample.uid: shorten_text(sample.question) for sample in reference.samples(uids)}
    for row in changed:
        row["start"] = starts.get(row["uid"], "")


def _find_scale_ends(runs: Sequence[SavedRun], common: CommonRows) -> Ends | None:
    """Return the ends of the scale of all values, as far as runs know them; `None` if unknown."""
    import numpy as np

    known_ends = [ends for run in runs if (ends := run.headline_ends) is not None]
    ends = reduce(Ends.widen, known_ends) if known_ends else None
    return find_ends(np.concatenate([side.values for side in common.sides]), ends)


def _correct_p_values(differences: Sequence[dict[str, Any]]) -> None:
    """Correct the p-values over all runs, and what they settle; with two runs nothing changes."""
    testable = [difference for difference in differences if difference["p"] is not None]
    for entry, p in zip(
        testable,
        holm([difference["p"] for difference in testable]) if len(differences) > 1 else (),
        strict=False,
    ):
        entry.update(p_corrected=p, settled=p < 1 - LEVEL)
    tests = [difference["tests"] for difference in differences]
    for number in range(max(map(len, tests)) if len(tests) > 1 else 0):
        results = [run_tests[number] for run_tests in tests if number < len(run_tests)]
        testable_results = [result for result in results if result["test"].p is not None]
        for result, p in zip(
            testable_results, holm([result["test"].p for result in testable_results]), strict=True
        ):
            result["corrected"] = p


def _notes(
    runs: Sequence[SavedRun],
    letters: Sequence[str],
    common: CommonRows,
    across: Collection[Condition],
) -> list[str]:
    """Return notes for readers of the numbers."""
    further = list(zip(letters, runs, common.same_answers, strict=True))[1:]
    notes = list[str]()
    for letter, run, _ in further:
        notes += list_notes(runs[0], run, letter)
    rows = len(common.uids)
    for letter, run, same in further:
        if policy_is_judge(run):
            continue  # its answers are verdicts
        if same == rows:
            notes.append(
                f"{letter} judges the same answers as A: all differences come from the judge."
            )
        elif same is not None and "judge" in across:
            notes.append(
                f"{letter} judges the same answer as A in {same} of {rows} rows; in the others, "
                "differences may come from the judge or from the answer."
            )
    letters_by_notice: dict[str, list[str]] = {}
    for letter, run in zip(letters, runs, strict=True):
        run_notices = wire.lookup(run.general, "notices")
        if not isinstance(run_notices, list):
            continue
        for notice in dict.fromkeys(text for text in run_notices if isinstance(text, str)):
            letters_by_notice.setdefault(notice, []).append(letter)
    for notice, notice_letters in letters_by_notice.items():
        if len(notice_letters) == len(runs):
            notes.append(notice)
        else:  # it begins with the runs that give it
            notes.append(f"{', '.join(notice_letters)}: {notice}")
    if len(runs) > 2:
        notes.append("p-values are given as they are and corrected over all runs (Holm).")
    return [*dict.fromkeys(notes)]
