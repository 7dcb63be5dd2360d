"""Report on the judges of a jury or a cascade: agreement, contribution, cost, and kept promises.

Scores are from 0 to 1. A verdict is the side of ½ on which a score lies, or ½ itself. With labels
that are all 0 or 1, a judge's points are 1 for the right side, ½ for a score of ½, else 0; with
graded labels they are 1 − |score − label|.

Guarantees: everything comes from the samples on disk. An undefined number has a reason. A jury is
called better or worse than its best member only if the 95 % interval of the difference, paired by
row and over prompts, has one sign.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from judgegym.engine.records import Sample
from judgegym.engine.terminal.output import Table, format_dollars
from judgegym.engine.terminal.summary import Section, SummaryLine
from judgegym.judges.parts.cascade import ESCALATED, CascadeSettings
from judgegym.judges.parts.jury import JurySettings, compute_jury_scores
from judgegym.judges.scorers.registry import built_in_kind
from judgegym.llm import wire
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON, mapping_or_empty
from judgegym.reports.results.run import SavedRun
from judgegym.statistics import percent
from judgegym.statistics.agreement import Interval, krippendorff_alpha, quadratic_kappa, sides
from judgegym.statistics.cascades import upper_bound
from judgegym.statistics.intervals import UNIT, mean_interval

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Codes, Floats

PARTS = "judges"
"""The report's field of `config_general` in `metrics.json`."""
FEWEST_LABELS = 20
_LEVEL = 0.95
_JURY = built_in_kind(JurySettings)
_CASCADE = built_in_kind(CascadeSettings)


@dataclass(frozen=True, slots=True)
class MemberReport:
    """The numbers of one of the judges.

    Attributes:
        name: the judge's name.
        rows: the number of rows with its score.
        missing: the number of judged rows without its score: it failed, or was not called.
        mean: the mean of its scores; `None` without any.
        calls: the number of its judge calls.
        cost: their cost in dollars; `None` if unknown.
        with_rest: quadratic kappa with the jury of the others, or why there is none.
        moves: the mean distance of the jury's score from that of the jury without this judge.
        points: with labels, the mean of its points.
        adds: with labels, the jury's points − those of the jury without this judge.
        adds_interval: the 95 % interval of `adds`.
    """

    name: str
    rows: int
    missing: int
    mean: float | None
    calls: int
    cost: float | None
    with_rest: float | str = ""
    moves: float | None = None
    points: float | None = None
    adds: float | None = None
    adds_interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class JudgesReport:
    """The report on a jury or a cascade.

    Attributes:
        kind: `jury` or `cascade`.
        rows: the number of rows with a score.
        members: its judges.
        words: the findings, in sentences.
        kappas: for a jury, quadratic kappa of each two members in their order, or why there is
            none.
        alpha: for a jury, Krippendorff's α of all members, or why there is none.
        labels: the number of rows with a label and a score.
        points: with labels, the mean points of the jury.
        escalated: for a cascade, the number of rows that the strong judge decides.
        rechecked: the number of rows that the cheap judge decides and the strong one judged, too.
        differ: the number of those on which their verdicts differ.
        is_broken: whether the promise of a cascade is broken with 95 % certainty.
    """

    kind: str
    rows: int
    members: tuple[MemberReport, ...]
    words: tuple[str, ...] = ()
    kappas: tuple[tuple[float | str, ...], ...] = ()
    alpha: float | str = ""
    labels: int = 0
    points: float | None = None
    escalated: int = 0
    rechecked: int = 0
    differ: int = 0
    is_broken: bool = False

    def section(self) -> Section:
        """Return the section of the summary on the terminal."""
        return Section(self.kind, [*self.lines()], is_alarm=self.is_broken)

    def lines(self) -> Iterator[SummaryLine]:
        """Return a line for each judge, then the sentences."""
        for member in self.members:
            cost = "cost unknown" if member.cost is None else format_dollars(member.cost)
            remarks = [f"{member.rows:,} rows, {member.calls:,} calls, {cost}"]
            if self.kind == _JURY:
                remarks.append(f"κ with the others {_format_number(member.with_rest)}")
            if member.points is not None:
                remarks.append(f"{percent(member.points)} of points")
            if member.adds is not None and member.adds_interval is not None:
                interval = _format_points(member.adds_interval)
                remarks.append(f"adds {100 * member.adds:+.1f} points (95 %: {interval})")
            mean = "–" if member.mean is None else f"{member.mean:.4f}"
            yield SummaryLine(member.name, mean, "; ".join(remarks))
        for sentence in self.words:
            yield SummaryLine("", "", sentence)

    def tables(self) -> Iterator[Table]:
        """Return the tables of the page."""
        lines = tuple((line.label, line.value, line.remark) for line in self.lines())
        yield Table(self.kind.capitalize(), ("judge", "mean score", ""), lines)
        if self.kappas:
            names = [member.name for member in self.members]
            rows = tuple(
                (name, *map(_format_number, row))
                for name, row in zip(names, self.kappas, strict=True)
            )
            yield Table("Agreement of members (κ)", ("", *names), rows)


def _format_number(value: float | str) -> str:
    if isinstance(value, str):
        return "–"
    return f"{value:.2f}"


def read_part_scores(sample: Sample[JSON]) -> Mapping[str, JSON]:
    """Return the scores of a sample's parts or judges by name; empty with a single judge."""
    score_maps = [mapping_or_empty(wire.lookup(sample.detail, key)) for key in _SCORE_FIELDS]
    return next(filter(None, [sample.members, *score_maps]), {})


class _JudgeScores:
    """The scores of a run's judges (a row for each judge, NaN without a score) and of the whole."""

    def __init__(self, run: SavedRun, names: Sequence[str], labels: Mapping[str, float]) -> None:
        """Read the scores from a run."""
        import numpy as np

        rows, prompts = list[list[object]](), list[str]()
        self.names, self.calls, self.usage = names, Counter[str](), defaultdict[str, Usage](Usage)
        for sample in run.samples():
            for call, call_run in (sample.run.judge_calls or {}).items():
                name = call.partition("/")[0]
                self.calls[name] += 1
                self.usage[name] += call_run.usage
            parts = read_part_scores(sample)
            if parts and sample.headline is not None:
                whole = sample.headline.value if sample.headline.weight else None
                scores = (parts.get(name) for name in names)
                prompts.append(sample.prompt_key)
                rows.append([parts.get(ESCALATED) == 1.0, labels.get(sample.uid), whole, *scores])
        table = np.array(rows, dtype=float).reshape(-1, len(names) + 3).T  # None becomes NaN
        self.prompts = np.unique(prompts, return_inverse=True)[1]
        self.escalated, self.labels, self.whole, self.scores = (
            table[0] == 1.0,
            table[1],
            table[2],
            table[3:],
        )

    def points(self, scores: Floats) -> Floats:
        """Return the points of scores on each labelled row; NaN without label or score."""
        labels = self.labels
        if {*_drop_missing(labels).tolist()} <= {0.0, 1.0}:
            scores, labels = sides(scores) / 2.0, sides(labels) / 2.0
        row_points: Floats = 1.0 - abs(scores - labels)
        return row_points

    def report_members(self) -> list[MemberReport]:
        """Return the numbers of each judge that juries and cascades share."""
        reports = []
        for name, column in zip(self.names, self.scores, strict=True):
            rows = len(_drop_missing(column))
            cost = self.usage[name].cost
            reports.append(
                MemberReport(name, rows, len(column) - rows, _mean(column), self.calls[name], cost)
            )
        return reports


_SCORE_FIELDS = ("components", "parts")
"""Fields of a sample's detail with the judges' scores: scored data; the environment prompts."""


def report_jury(run: SavedRun, settings: JurySettings, labels: Mapping[str, float]) -> JudgesReport:
    """Return the report on a jury; labels are from 0 to 1, by row.

    Raises:
        RunDirectoryError: a file of the run cannot be read.
    """
    import numpy as np

    rows = _JudgeScores(run, [*settings.judges], labels)
    scores = dict(zip(rows.names, rows.scores.tolist(), strict=True))
    points = rows.points(rows.whole)
    members: list[MemberReport] = []
    for base, column in zip(rows.report_members(), rows.scores, strict=True):
        other_scores = {name: values for name, values in scores.items() if name != base.name}
        others = np.array(compute_jury_scores(other_scores, settings, quorum=1))
        kappa = quadratic_kappa(column, others)
        moves = _mean(abs(rows.whole - others))
        member_points, (adds, interval) = (
            _mean(rows.points(column)),
            _paired_mean(points - rows.points(others), rows.prompts),
        )
        members.append(
            replace(
                base,
                with_rest=kappa,
                moves=moves,
                points=member_points,
                adds=adds,
                adds_interval=interval,
            )
        )
    alpha = krippendorff_alpha(rows.scores) if rows.scores.size else "no row has a score"
    words = f"α of all members: {alpha:.2f}" if isinstance(alpha, float) else f"no α: {alpha}"
    return JudgesReport(
        _JURY,
        rows=len(rows.whole),
        members=tuple(members),
        words=(words, *_compare_with_best(rows, members, points)),
        kappas=tuple(
            tuple(quadratic_kappa(left, right) for right in rows.scores) for left in rows.scores
        ),
        alpha=alpha,
        labels=len(_drop_missing(points)),
        points=_mean(points),
    )


def _compare_with_best(
    rows: _JudgeScores, members: Sequence[MemberReport], points: Floats
) -> Iterator[str]:
    """Yield whether the jury beats the member that is best on the labelled rows."""
    import numpy as np

    count = len(_drop_missing(points))
    if 0 < count < FEWEST_LABELS:
        yield (
            f"{count} labels are too few to compare the jury with its members; {FEWEST_LABELS} or "
            "more are needed"
        )
    if count < FEWEST_LABELS:
        return
    # Compare on the rows that a member has judged: a member that fails on hard rows has more points
    # without them.
    gains = [_paired_mean(points - rows.points(scores), rows.prompts) for scores in rows.scores]
    ranked_gains = [(gain, index) for index, (gain, _) in enumerate(gains) if gain is not None]
    if not ranked_gains:
        return
    gain, best = min(ranked_gains)
    interval = gains[best][1]
    best_points = rows.points(rows.scores[best])
    both = np.isfinite(points - best_points)
    name = members[best].name
    best_percent = percent(best_points[both].mean())
    between = "no interval: all rows are of one prompt"
    if interval is not None:
        between = f"95 %: {_format_points(interval)}"
    points_gained = 100 * abs(gain)
    direction = "more" if gain >= 0 else "less"
    gain_text = f"{points_gained:.1f} points {direction} ({between})"
    verdict = f"it is not certain that the jury is better than {name} alone"
    if interval is not None and interval.low > 0:
        verdict = "the jury beats its best member"
    elif interval is not None and interval.high < 0:
        verdict = f"the jury harms: {name} alone is better and cheaper"
    row_count = int(both.sum())
    jury_percent = percent(points[both].mean())
    compared = f"the jury has {jury_percent} of points, its best member, {name}, {best_percent}"
    yield f"On {row_count:,} labelled rows {compared}: {gain_text}; {verdict}"


def _format_points(interval: Interval) -> str:
    return f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f}"


def _drop_missing(values: Floats) -> Floats:
    import numpy as np

    finite: Floats = values[np.isfinite(values)]
    return finite


def _mean(values: Floats) -> float | None:
    finite = _drop_missing(values)
    if len(finite):
        return float(finite.mean())
    return None


def _paired_mean(differences: Floats, prompts: Codes) -> tuple[float | None, Interval | None]:
    """Return the mean of differences by row, and its interval (`None` without two prompts)."""
    import numpy as np

    finite = np.isfinite(differences)
    if not finite.any():
        return None, None
    ends = UNIT.difference_ends
    return _mean(differences), mean_interval(
        differences[finite], clusters=prompts[finite], ends=ends
    )


def report_cascade(run: SavedRun, settings: CascadeSettings) -> JudgesReport:
    """Return the report on a cascade, and whether its promise still holds.

    Raises:
        RunDirectoryError: a file of the run cannot be read.
    """
    import numpy as np

    rows = _JudgeScores(run, [*settings.cascade], {})
    cheap, strong = rows.scores
    count = len(rows.whole)
    both = np.isfinite(cheap) & np.isfinite(strong) & ~rows.escalated
    escalated = int(rows.escalated.sum())
    rechecked = int(both.sum())
    differ = int((sides(cheap) != sides(strong))[both].sum())
    words, is_broken = describe_promise(count, escalated, rechecked, differ, settings.cascade_harm)
    return JudgesReport(
        *(_CASCADE, count, tuple(rows.report_members()), words),
        escalated=escalated,
        rechecked=rechecked,
        differ=differ,
        is_broken=is_broken,
    )


def describe_promise(
    rows: int, escalated: int, rechecked: int, differ: int, harm: float | None
) -> tuple[tuple[str, ...], bool]:
    """Describe how often a cascade's judges differ, and return whether its promise is broken.

    The promise is about all rows, so the exact bounds of the rechecked rows are multiplied by the
    share that the cheap judge decides. It is broken if the lower bound is above it. Each bound has
    95 % certainty.

    Args:
        rows: the number of rows with a score.
        escalated: the number of rows that the strong judge decides.
        rechecked: the number of rows that the cheap judge decides and the strong one judged, too.
        differ: the number of those on which the verdicts differ.
        harm: the promise, as a share; `None` without one.
    """
    if not rows:
        return ("no row has a score",), False
    cheap_share = 1.0 - escalated / rows
    escalation = f"{percent(escalated / rows)} of {rows:,} rows were escalated"
    if not rechecked:
        return (
            f"{escalation}; none of the others was shown to both judges (cascade_recheck)",
        ), False
    least = cheap_share * (1.0 - upper_bound(rechecked - differ, rechecked, level=_LEVEL))
    most = cheap_share * upper_bound(differ, rechecked, level=_LEVEL)
    bounds = f"at least {percent(least)}, at most {percent(most)} of all rows"
    recheck = f"{differ:,} of {rechecked:,} rechecked rows differ ({bounds})"
    if harm is None:
        return (escalation, recheck), False
    promise = f"the promise of {percent(harm)}"
    if least > harm:
        return (
            escalation,
            f"{promise} no longer holds: {recheck}; judge with the strong one, or choose again",
        ), True
    holds = "holds" if most <= harm else "is not contradicted"
    return (escalation, f"{promise} {holds}: {recheck}"), False


_REPORT = TypeAdapter(JudgesReport)


def read_report(run: SavedRun) -> JudgesReport | None:
    """Return the report in `metrics.json`; `None` without one, or if it has another form."""
    try:
        return _REPORT.validate_python(run.general.get(PARTS))
    except ValidationError:
        return None
