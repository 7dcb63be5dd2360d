"""Compare runs on the rows that they share, the first of them being the reference.

Guarantees: a row counts only if every run has a value for it, and what is left out is counted; runs whose judge,
protocol or data differ are refused unless that is allowed; of rows, numbers are kept in memory and no text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from judgegym.engine.runs.directory import METRICS
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError, UserError
from judgegym.reports.compare.comparison import ComparedRun, Comparison, ComparisonSettings, Difference, TestResult
from judgegym.reports.compare.conditions import (
    CONDITIONS,
    Condition,
    ConditionDifference,
    differing,
    notes_on,
    policy_is_judge,
)
from judgegym.reports.compare.difference import Pair, difference, kind_of
from judgegym.reports.compare.gold import gold_comparison
from judgegym.reports.compare.rows import CommonRows, RowsOfRun, first_difference, shared, starts_of
from judgegym.reports.results.run import SavedRun, run_of_file
from judgegym.statistics.paired import holm

LEVEL = 0.95
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class NotComparableError(UserError):
    """Runs cannot be compared: they measured other things, or under conditions that differ.

    Attributes:
        conditions: those that differ and may be allowed to; empty if nothing makes the runs comparable.
    """

    def __init__(self, message: str, conditions: Sequence[Condition] = ()) -> None:
        """Say why."""
        super().__init__(message)
        self.conditions = tuple(conditions)


def open_run(word: str) -> SavedRun:
    """Open the run of a directory, or of a scored file.

    Raises:
        RunDirectoryError: it is another file, or holds no run.
    """
    path = Path(word).expanduser()
    run = None if path.is_dir() else run_of_file(path)
    if run is None and path.is_file():
        is_of_a_run = (path.parent / METRICS).is_file()
        wanted = (
            f"give the run directory that it is in: {path.parent}" if is_of_a_run else "compare takes run directories"
        )
        raise RunDirectoryError(f"{word} is a file; {wanted}")
    return SavedRun.open(run or path)


def compare_runs(
    runs: Sequence[SavedRun],
    *,
    across: Collection[Condition] = (),
    rounds: int = 10_000,
    seed: int = 0,
    most: int = 10,
    with_gold: bool = False,
) -> Comparison:
    """Compare each further run with the first one.

    Args:
        runs: two or more complete runs of one environment.
        across: conditions that may differ. With `judge`, it is said how far the judges agree. Of scored data sets the
            judges may always differ.
        rounds: number of bootstrap resamples.
        seed: their seed.
        most: how many of the rows that changed most are named.
        with_gold: compare each run with the gold labels of the rows, too.

    Raises:
        NotComparableError: they are of different environments or metrics, share no row, or differ in a condition that
            is not allowed to differ.
        RunDirectoryError: a run cannot be read.
    """
    headline, words = _headline(runs)
    if runs[0].is_scored:  # of the same responses, judges are what is compared
        across = {*across, "judge"}
    letters = [_letter(place) for place in range(len(runs))]
    rows = [RowsOfRun(run) for run in runs]
    found = shared(rows)
    if not found.uids:
        raise NotComparableError(f"{' and '.join(str(run.path) for run in runs)} share no row that has a judgment")
    differs = [each for place in range(1, len(runs)) for each in _differing(runs, place, letters, found)]
    _check_allowed(runs, letters, differs, across)
    settings = ComparisonSettings(rounds, seed, LEVEL)
    kind = kind_of(headline, words, found.sides)
    pairs = [Pair(found, place, kind, settings) for place in range(1, len(runs))]
    estimates = [pair.estimate() for pair in pairs]
    against = [
        difference(pair, letter, estimate.difference, most=most, with_agreement="judge" in across)
        for pair, letter, estimate in zip(pairs, letters[1:], estimates, strict=True)
    ]
    starts = starts_of(runs[0], frozenset(row.uid for each in against for row in each.changed))
    against = [
        replace(each, changed=[replace(row, start=starts.get(row.uid, "")) for row in each.changed]) for each in against
    ]
    intervals = [estimates[0].reference, *(estimate.run for estimate in estimates)]
    return Comparison(
        environment=runs[0].environment,
        metric=headline,
        words=words,
        kind=kind,
        rows=len(found.uids),
        runs=[
            ComparedRun(
                letter=letters[place],
                path=str(run.path),
                policy=run.policy,
                judge=run.judge,
                date=f"{run.date:%Y-%m-%d %H:%M}",
                rows=len(rows[place]),
                failed=rows[place].failed,
                uncounted=rows[place].uncounted,
                not_shared=len(rows[place].places) - len(found.uids),
                headline=found.sides[place].ratio,
                interval=intervals[place],
            )
            for place, run in enumerate(runs)
        ],
        differences=_corrected(against),
        across=[condition for condition in CONDITIONS if condition in across],
        differing=differs,
        notes=[*_notes(runs, letters, found, across, differs)],
        settings=settings,
        item="response" if runs[0].is_scored else "row",
        unit=_unit(runs[0], found),
        gold=gold_comparison(runs, letters, found.uids, settings) if with_gold else None,
    )


def _unit(reference: SavedRun, found: CommonRows) -> str:
    if found.units is None:
        return "row"
    return "response" if len({*found.units.tolist()}) == len(found.uids) else "prompt"


def _headline(runs: Sequence[SavedRun]) -> tuple[str, str]:
    """The metric of all runs and its label.

    Raises:
        NotComparableError: fewer than two runs, one given twice, one unfinished, or runs that measured other things.
    """
    if len(runs) < 2:
        raise NotComparableError("give two runs or more: the first is the one that the others are compared with")
    for one, other in combinations(runs, 2):
        if one.path.resolve() == other.path.resolve():
            raise NotComparableError(f"{one.path} is given twice")
    for run in runs:
        if not run.is_complete:
            raise NotComparableError(
                f"{run.path} is not finished (--resume it first), or no run of evaluate: it has no metrics.json"
            )
    first = runs[0]
    measured = [(run.environment, str(run.general.get("headline"))) for run in runs]
    for run, (environment, metric) in zip(runs[1:], measured[1:], strict=True):
        if environment != first.environment:
            raise NotComparableError(f"{first.path} is a run of {first.environment}, {run.path} one of {environment}")
        if metric != measured[0][1]:
            raise NotComparableError(f"the result of {first.path} is {measured[0][1]}, that of {run.path} is {metric}")
    metric = measured[0][1]
    return metric, first.headline.words if first.headline is not None else metric


def _letter(place: int) -> str:
    return _LETTERS[place] if place < len(_LETTERS) else f"R{place + 1}"


def _differing(
    runs: Sequence[SavedRun], place: int, letters: Sequence[str], found: CommonRows
) -> list[ConditionDifference]:
    """Where the conditions of a run differ from those of the reference, the texts of shared rows included."""
    differs = [*differing(runs[0], runs[place], letters[place])]
    others = found.texts_differ[place]
    if others:
        title, first, second = first_difference(runs[0].read_sample(others[0]), runs[place].read_sample(others[0]))
        name = f"texts of {len(others)} of {len(found.uids)} rows, such as the {title} of {others[0]}"
        differs.append(ConditionDifference("data", letters[place], name, first, second))
    return differs


def _check_allowed(
    runs: Sequence[SavedRun],
    letters: Sequence[str],
    differs: Sequence[ConditionDifference],
    across: Collection[Condition],
) -> None:
    """Refuse to compare under conditions that differ and were not allowed to.

    Raises:
        NotComparableError: names each difference with both values, and the flags.
    """
    refused = [each for each in differs if each.condition not in across]
    if not refused:
        return
    conditions = [condition for condition in CONDITIONS if any(each.condition == condition for each in refused)]
    lines = [f"the runs differ in {' and '.join(conditions)}, from which a difference of their results may come:"]
    lines += [f"  {letter}: {run.path}" for letter, run in zip(letters, runs, strict=True)]
    lines += [f"  {each.condition}: {each.name}: A {each.reference}; {each.letter} {each.run}" for each in refused]
    flags = " ".join(f"--across_{condition if condition == 'data' else f'{condition}s'}" for condition in conditions)
    raise NotComparableError("\n".join([*lines, f"to compare them all the same: {flags}"]), conditions)


def _corrected(differences: Sequence[Difference]) -> list[Difference]:
    """The differences with the p-values of each test corrected over all runs; as they are with one."""
    if len(differences) < 2:
        return [*differences]
    tests = [list(each.tests) for each in differences]
    for number in range(max(map(len, tests))):
        having = [own for own in tests if number < len(own) and own[number].test.p is not None]
        p_values = [own[number].test.p for own in having]
        for own, p in zip(having, holm([p for p in p_values if p is not None]), strict=True):
            own[number] = TestResult(own[number].test, p)
    return [replace(each, tests=own) for each, own in zip(differences, tests, strict=True)]


def _notes(
    runs: Sequence[SavedRun],
    letters: Sequence[str],
    found: CommonRows,
    across: Collection[Condition],
    differs: Sequence[ConditionDifference],
) -> list[str]:
    """What a reader of the numbers must know."""
    notes = [note for run, letter in zip(runs[1:], letters[1:], strict=True) for note in notes_on(runs[0], run, letter)]
    for place in range(1, len(runs)):
        same, rows = found.same_answers[place], len(found.uids)
        if policy_is_judge(runs[place]):
            continue  # its answers are the verdicts
        if same == rows:
            notes.append(f"{letters[place]} judges the same answers as A: what differs is the judge's doing.")
        elif same is not None and "judge" in across:
            notes.append(
                f"{letters[place]} judges the same answer as A in {same} of {rows} rows; in the others, the judges' "
                "disagreement and the answers' difference cannot be told apart."
            )
    for condition in CONDITIONS:
        if condition in across and not any(each.condition == condition for each in differs):
            notes.append(f"The {condition} may differ, and does not.")
    notes += _notices(runs, letters)
    if len(runs) > 2:
        notes.append("p-values are given as they are and corrected over all runs (Holm).")
    return [*dict.fromkeys(notes)]


def _notices(runs: Sequence[SavedRun], letters: Sequence[str]) -> Iterator[str]:
    """What the runs say of themselves, each notice once; one that not all of them give begins with those that do."""
    given: dict[str, list[str]] = {}
    for run, letter in zip(runs, letters, strict=True):
        said = wire.lookup(run.general, "notices")
        notices = [notice for notice in (said if isinstance(said, list) else []) if isinstance(notice, str)]
        for notice in dict.fromkeys(notices):
            given.setdefault(notice, []).append(letter)
    for notice, of in given.items():
        yield notice if len(of) == len(runs) else f"{', '.join(of)}: {notice}"
