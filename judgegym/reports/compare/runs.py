"""Compare runs on the rows that they share, the first of them being the reference.

Guarantees: a row counts only if every run has a value for it, and what is left out is counted; runs whose judge,
protocol or data differ are refused unless that is allowed; of rows, numbers are kept in memory and no text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.engine.metrics import GoldLabel
from judgegym.engine.runs.directory import METRICS
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError, UserError
from judgegym.reports.compare.comparison import (
    ComparedRun,
    Comparison,
    ComparisonSettings,
    Difference,
    GoldAgreement,
    GoldComparison,
    GoldDifference,
    TestResult,
    letter_of,
)
from judgegym.reports.compare.conditions import (
    CONDITIONS,
    Condition,
    ConditionDifference,
    differing,
    notes_on,
    policy_is_judge,
)
from judgegym.reports.compare.difference import Pair, PairEstimate, difference, kind_of
from judgegym.reports.compare.rows import CommonRows, RowsOfRun, first_difference, shared, starts_of
from judgegym.reports.results.run import SavedRun, run_of_file
from judgegym.statistics.paired import RatioTerms, holm, kappa_interval, sign_test

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Labels = Mapping[tuple[str, str], GoldLabel]

LEVEL = 0.95


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
    rows = [RowsOfRun(run) for run in runs]
    found = shared(rows)
    if not found.uids:
        raise NotComparableError(f"{' and '.join(str(run.path) for run in runs)} share no row that has a judgment")
    differs = [each for place in range(1, len(runs)) for each in _differing(runs, place, found)]
    _check_allowed(runs, differs, across)
    settings = ComparisonSettings(rounds, seed, LEVEL)
    kind = kind_of(headline, words, found.sides)
    pairs = [Pair(found, place, kind, settings) for place in range(1, len(runs))]
    estimates = [pair.estimate() for pair in pairs]
    against = [
        difference(pair, estimate.difference, most=most, with_agreement="judge" in across)
        for pair, estimate in zip(pairs, estimates, strict=True)
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
                letter=letter_of(place),
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
        notes=_notes(runs, found, across, differs),
        settings=settings,
        item="response" if runs[0].is_scored else "row",
        unit=_unit(runs[0], found),
        gold=_gold_comparison(runs, found.uids, settings) if with_gold else None,
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


def _differing(runs: Sequence[SavedRun], place: int, found: CommonRows) -> list[ConditionDifference]:
    """Where the conditions of a run differ from those of the reference, the texts of shared rows included."""
    differs = [*differing(runs[0], runs[place], letter_of(place))]
    others = found.texts_differ[place]
    if others:
        title, first, second = first_difference(runs[0].read_sample(others[0]), runs[place].read_sample(others[0]))
        name = f"texts of {len(others)} of {len(found.uids)} rows, such as the {title} of {others[0]}"
        differs.append(ConditionDifference("data", letter_of(place), name, first, second))
    return differs


def _check_allowed(
    runs: Sequence[SavedRun], differs: Sequence[ConditionDifference], across: Collection[Condition]
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
    lines += [f"  {letter_of(place)}: {run.path}" for place, run in enumerate(runs)]
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
    found: CommonRows,
    across: Collection[Condition],
    differs: Sequence[ConditionDifference],
) -> list[str]:
    """What a reader of the numbers must know."""
    further = [(letter_of(place), run, found.same_answers[place]) for place, run in enumerate(runs) if place]
    notes = [note for letter, run, _ in further for note in notes_on(runs[0], run, letter)]
    for letter, run, same in further:
        rows = len(found.uids)
        if policy_is_judge(run):
            continue  # its answers are the verdicts
        if same == rows:
            notes.append(f"{letter} judges the same answers as A: what differs is the judge's doing.")
        elif same is not None and "judge" in across:
            notes.append(
                f"{letter} judges the same answer as A in {same} of {rows} rows; in the others, the judges' "
                "disagreement and the answers' difference cannot be told apart."
            )
    for condition in CONDITIONS:
        if condition in across and not any(each.condition == condition for each in differs):
            notes.append(f"The {condition} may differ, and does not.")
    notes += _notices(runs)
    if len(runs) > 2:
        notes.append("p-values are given as they are and corrected over all runs (Holm).")
    return [*dict.fromkeys(notes)]


def _notices(runs: Sequence[SavedRun]) -> Iterator[str]:
    """What the runs say of themselves, each notice once; one that not all of them give begins with those that do."""
    given: dict[str, list[str]] = {}
    for place, run in enumerate(runs):
        said = wire.lookup(run.general, "notices")
        notices = [notice for notice in (said if isinstance(said, list) else []) if isinstance(notice, str)]
        for notice in dict.fromkeys(notices):
            given.setdefault(notice, []).append(letter_of(place))
    for notice, of in given.items():
        yield notice if len(of) == len(runs) else f"{', '.join(of)}: {notice}"


def _gold_comparison(runs: Sequence[SavedRun], uids: Sequence[str], settings: ComparisonSettings) -> GoldComparison:
    """Compare each run with gold, and the agreement of each further run with that of the first.

    A label counts if the judge of every run gave a verdict on it. Rows are resampled as a whole: the labels of one
    (both orders of a pair, several aspects) depend on each other.

    Raises:
        RunDirectoryError: no shared row has a gold label with a verdict in every run.
    """
    wanted = frozenset(uids)
    found = [_gold_labels(run, wanted) for run in runs]
    everywhere = [key for key in found[0] if all(key in labels for labels in found[1:])]
    keys = [key for key in everywhere if all(labels[key].agrees is not None for labels in found)]
    if not keys:
        raise RunDirectoryError(
            "--gold: no shared row has a gold label and a verdict in every run; expected runs in which a judge is "
            "measured against gold labels (pairwise judgement, role=judge, score_responses). In a run of an earlier "
            "version --resume adds them, and asks nothing again"
        )
    numbers: dict[str, int] = {}
    rows = [numbers.setdefault(uid, len(numbers)) for uid, _ in keys]
    sides = [_accuracy_terms(labels, keys, rows) for labels in found]
    weighted = all(isinstance(labels[key].gold, float) for labels in found for key in keys)
    return GoldComparison(
        labels=len(keys),
        rows=len(numbers),
        without=len(everywhere) - len(keys),
        weighted=weighted,
        runs=[
            _gold_agreement(letter_of(place), labels, keys, rows, sides[place], settings)
            for place, labels in enumerate(found)
        ],
        differences=[
            GoldDifference(
                letter_of(place),
                PairEstimate.of(sides[0], side, settings).difference,
                TestResult(sign_test(sides[0].values, side.values), None),
            )
            for place, side in enumerate(sides[1:], start=1)
        ],
    )


def _gold_labels(run: SavedRun, uids: frozenset[str]) -> Labels:
    return {(sample.uid, label.name): label for sample in run.samples(uids) for label in sample.gold}


def _accuracy_terms(labels: Labels, keys: Sequence[tuple[str, str]], rows: Sequence[int]) -> RatioTerms:
    """What each row adds to the accuracy: how many of its labels the judge got right, and how many it has."""
    import numpy as np

    right = np.bincount(rows, [float(bool(labels[key].agrees)) for key in keys]).astype(np.float64)
    return RatioTerms(right, np.bincount(rows).astype(np.float64))


def _gold_agreement(
    letter: str,
    labels: Labels,
    keys: Sequence[tuple[str, str]],
    rows: Sequence[int],
    side: RatioTerms,
    settings: ComparisonSettings,
) -> GoldAgreement:
    golds, judges = _embedded([labels[key].gold for key in keys], [labels[key].judge for key in keys])
    kappa = kappa_interval(golds, judges, rows, rounds=settings.rounds, seed=settings.seed, level=settings.level)
    interval = PairEstimate.of(side, side, settings).run
    if isinstance(kappa, str):
        return GoldAgreement(letter, side.ratio, interval, None, None, kappa)
    return GoldAgreement(letter, side.ratio, interval, *kappa)


def _embedded(
    golds: Sequence[str | float], judges: Sequence[str | float | None]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Labels as vectors whose squared distances are the weights of kappa: scores as numbers, others one-hot."""
    import numpy as np

    if all(isinstance(each, float | int) for each in (*golds, *judges)):
        return np.asarray(golds, dtype=float)[:, None], np.asarray(judges, dtype=float)[:, None]
    names = {name: place for place, name in enumerate(dict.fromkeys(map(str, (*golds, *judges))))}
    one_hot = np.eye(len(names))
    return one_hot[[names[str(each)] for each in golds]], one_hot[[names[str(each)] for each in judges]]
