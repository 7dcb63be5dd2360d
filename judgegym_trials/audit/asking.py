"""Rows and judges of an audit that calls a judge, and its judgments in the form for the checks.

A judge that compares judges each pair in both orders. Any other judge's verdict on a pair is the
response with the higher score, and a tie if scores are equal. A seeded sample is judged again, and
with other wordings of the prompt. A second form of the same judge (scores besides comparisons) may
contradict the first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from judgegym.data.rows import Row
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.score.saved import ScoreDetail
from judgegym.engine.records import Sample
from judgegym.judges.config.fields import operational
from judgegym.judges.core.seeding import make_generator
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.pairwise import ChoiceJudgeSettings
from judgegym.judges.parsing.labels import yes_no_label
from judgegym.judges.scorers.registry import (
    built_in_kind,
    describe_scale,
    find_definition,
    find_scale,
    is_kind,
)
from judgegym.judges.scorers.settings import AnyJudgeSettings, JudgeKind
from judgegym.judges.tournament.schedule import TournamentSettings
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import is_blank
from judgegym_trials.audit.judgments import TIE, Judgments, RowJudgments, Value
from judgegym_trials.audit.latent_truth import MOST_NOISE
from judgegym_trials.audit.reading import (
    NO_GOLD,
    LabelledRow,
    exceeds_count,
    parse_second_label,
    read_row,
)
from judgegym_trials.audit.runs import measure_operation
from judgegym_trials.audit.wordings import load_wordings
from judgegym_trials.judged_rows import DerivedRows, JudgedRows, RowsSettings

FIRST, SECOND, WORDING = "judge", "second_form", "wording_"
"""Names of an audit's parts; a wording's name is appended to the last."""
_FIELDS = ("label", "gold", "second_label", "second_gold", "models", "cluster", "category")
_NO_ORDERS = "the judge sees each response by itself"
_ORDER_CHECKS = (
    "accuracy_given",
    "accuracy_swapped",
    "accuracy_both",
    "position_consistency",
    "first_place_advantage",
)
_POINTS = (("points_first", "points_second"), ("points_second", "points_first"))
"""Component names of both responses' points, in the given and in the swapped order."""


class CalledAuditSettings(RowsSettings):
    """All settings of an audit that calls a judge.

    Judge and data are as in `judgegym score`.
    """

    help_group: ClassVar[str] = "audit"

    data: str | None = operational(None, group="data")
    """Audit the judge on the labelled rows of this file or data set, as `judgegym score` reads
    them; usually the first word of the command."""
    out: Path | None = operational(None, group="data")
    """Write audit.json, the page audit.html, and the judged rows with their runs into this
    folder."""
    card: Path | None = operational(None, group="data")
    """Add the result to this card, the judge's file; it must be the judge that is called."""
    limit: int | None = operational(None, group="data", ge=1)
    """Use at most this many rows, the first ones."""
    label_column: str = operational("label", group="data")
    """Take the number of the better response of a pair, from 1, from this column. Of chosen and
    rejected it is the first."""
    gold_column: str = operational("gold", group="data")
    """Take the gold score, on the judge's scale, or the gold label of a row with one response from
    this column.
    """
    second_label_column: str = operational("second_label", group="data")
    """Take the number of the better response according to a second labeller from this column."""
    second_gold_column: str = operational("second_gold", group="data")
    """Take the gold score or label according to a second labeller from this column."""
    label_noise: float | None = operational(None, group="data", ge=0, lt=MOST_NOISE)
    """Take this share of the gold labels as wrong; 0: they are exact. If unset, an effect must hold
    at every share up to a bound, unless second labels tell the share.
    """
    models_column: str = operational("models", group="data")
    """Read the model that wrote each response from this column, for self-preference."""
    cluster_column: str | None = operational(None, group="data")
    """Treat rows with the same value in this column as dependent on each other. If unset, those
    with the same prompt.
    """
    repeats: int = operational(1, ge=0, le=20)
    """Judge each row of the sample this many more times, by separate calls."""
    paraphrases: str | None = operational(None)
    """Judge the sample under other wordings of the judge's prompt, too: shipped, or a YAML file of
    names and system prompts. None if unset."""
    sample: int = operational(100, ge=2)
    """Draw this many rows, by the seed, for repeats and paraphrases."""
    second_form: JudgeKind | None = operational(None)
    """Also ask the same model in this form, and count how often scores and comparisons contradict
    each other: one form must compare responses, the other must not.
    """
    settings: Path | None = operational(None)
    """Read thresholds that override the shipped ones from this YAML file."""

    @classmethod
    def kinds_beside(cls, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield the second form of the judge."""
        form = values.get("second_form")
        if isinstance(form, str) and is_kind(form):
            yield form


def compares_responses(kind: str) -> bool:
    """Return whether judges of a kind compare responses."""
    return find_definition(kind).most_together is not None


@dataclass(frozen=True, slots=True)
class AuditTargets:
    """The labelled rows to audit.

    Attributes:
        tasks: the task of each row.
        rows: their gold labels, without a judgment yet.
        is_pairs: whether rows have several responses.
        sample_rows: the numbers of the rows that are judged again.
        left_out: number of rows left out, by reason.
    """

    tasks: Sequence[JudgeTask]
    rows: Sequence[RowJudgments]
    is_pairs: bool
    sample_rows: Sequence[int]
    left_out: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AuditPart:
    """A part of an audit, with a run of its own: its name, judge and rows."""

    name: str
    settings: CalledAuditSettings
    rows: DerivedRows


def select_labelled(tasks: ScoreTasks, settings: CalledAuditSettings) -> AuditTargets:
    """Return the labelled rows among the user's rows.

    Raises:
        DataError: no row is labelled, or a label names no response.
        SettingsError: a judge cannot judge such rows.
    """
    kinds = [kind for kind in (settings.judge, settings.second_form) if kind is not None]
    if len(kinds) > 1 and compares_responses(kinds[0]) == compares_responses(kinds[1]):
        raise SettingsError(
            "--second_form: expected one judge that compares responses and one that does not"
        )
    if len(kinds) > 1 and not tasks.several:
        raise SettingsError(
            "--second_form: expected rows with two responses, which both forms can judge"
        )
    if settings.group_by is not None:
        raise SettingsError("--group_by: an audit needs all responses of a row in that row")
    is_pairs = tasks.several
    needs_two = any(map(compares_responses, kinds))
    scale = find_scale(settings.judge, settings)
    columns = {
        name: column
        for name in _FIELDS
        if (column := getattr(settings, f"{name}_column")) is not None
    }
    labelled_tasks: list[JudgeTask] = []
    rows: list[RowJudgments] = []
    left_out = Counter[str]()
    if tasks.bad:
        left_out["that cannot be judged"] = len(tasks.bad)
    for read in tasks.iter_judgeable():
        row = tasks.reader.rows[read.rows[0]]
        responses = read.judge_task.responses
        cells = read_row(row, _FIELDS, columns)
        gold, count = cells.gold, 0
        if is_pairs:
            count = len(responses)
            label = cells.label
            if read.chosen and math.isnan(label):
                label = 0.0
            if exceeds_count([label], count):
                raise row.error(f"expected a label from 1 to {count}, found {label + 1:g}")
            gold = None
            if label >= 0:
                gold = label
        else:
            if settings.definition.judges_aspects:
                gold = yes_no_label(gold) or gold
            if scale is not None and gold is not None and not scale.includes(gold):
                limits = describe_scale(settings.judge, scale)
                raise row.missing_error(
                    f"a gold score on the judge's scale, {limits}, not {gold!r}"
                )
        if gold is None:
            left_out[NO_GOLD] += 1
        elif any(map(is_blank, responses)) or len({*responses}) < len(responses):
            left_out["with an empty response, or equal ones"] += 1
        elif needs_two and len(responses) != 2:
            left_out["with another number of responses than two"] += 1
        else:
            labelled_tasks.append(read.judge_task)
            rows.append(
                RowJudgments(
                    row.uid_or_number(),
                    gold,
                    responses=responses,
                    models=cells.models,
                    cluster=repr(
                        read.judge_task.prompt if cells.cluster is None else cells.cluster
                    ),
                    category=read.category[0] or cells.category,
                    second_gold=_read_second_gold(row, cells, count, settings),
                )
            )
    if not labelled_tasks:
        why = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        raise DataError(
            f"{settings.data}: nothing to audit: expected responses and label (--label_column), or "
            f"one response and gold (--gold_column); rows left out: {why}"
        )
    again = make_generator(settings.seed, "audit", "rows again").sample(
        range(len(labelled_tasks)), min(settings.sample, len(labelled_tasks))
    )
    return AuditTargets(labelled_tasks, rows, is_pairs, sorted(again), left_out)


def _read_second_gold(
    row: Row, cells: LabelledRow, count: int, settings: CalledAuditSettings
) -> Value:
    """Return a second labeller's gold for a row, on the same scale as the first's."""
    if settings.definition.judges_aspects and not count:
        both = (yes_no_label(label) or label for label in (cells.gold, cells.second_gold))
        cells = cells.model_copy(update=dict(zip(("gold", "second_gold"), both, strict=True)))
    return parse_second_label(row, cells, count=count)


async def list_parts(
    targets: AuditTargets, settings: CalledAuditSettings
) -> tuple[Sequence[AuditPart], Mapping[str, str]]:
    """Return the parts of an audit, the judge itself first.

    Also return why checks are not measured, by their names.
    """
    judge = _settings_for(settings, settings.judge)
    unmeasured: dict[str, str] = {}
    rows = [_task_for(task, settings.judge) for task in targets.tasks]
    drawn = {number: rows[number] for number in targets.sample_rows}
    again = {}
    for repeat in range(1, settings.repeats + 1):
        for number, task in drawn.items():
            again[f"{repeat}/{number}"] = replace(task, repeat=repeat)
    parts = [AuditPart(FIRST, judge, {**_derive_rows(enumerate(rows)), **again})]
    if not settings.repeats:
        unmeasured["repeatability"] = "repeats are off (--repeats)"
    wordings: Mapping[str, str] | str = "other wordings are off (--paraphrases)"
    if settings.paraphrases is not None:
        wordings = await load_wordings(judge, [*drawn.values()], settings.paraphrases)
    if isinstance(wordings, str):
        unmeasured["paraphrase_agreement"], wordings = wordings, {}
    for name, prompt in wordings.items():
        reworded = judge.model_copy(update={"judge_system_prompt": prompt})
        parts.append(AuditPart(f"{WORDING}{name}", reworded, _derive_rows(drawn.items())))
    if settings.second_form is not None:
        second_rows = [_task_for(task, settings.second_form) for task in targets.tasks]
        parts.append(
            AuditPart(
                SECOND,
                _settings_for(settings, settings.second_form),
                _derive_rows(enumerate(second_rows)),
            )
        )
    else:
        unmeasured["contradiction"] = "a second form of the judge is off (--second_form)"
    if not compares_responses(settings.judge):
        unmeasured |= dict.fromkeys(_ORDER_CHECKS, _NO_ORDERS)
    return parts, unmeasured


def _derive_rows(rows: Iterable[tuple[int, JudgeTask]]) -> DerivedRows:
    return {f"0/{number}": task for number, task in rows}


def _settings_for(settings: CalledAuditSettings, kind: str) -> CalledAuditSettings:
    """Return the settings of a judge that is called in both orders.

    A choice between two is a game without a tie.
    """
    changed: dict[str, Any] = {"judge": kind}
    if compares_responses(kind):
        changed |= {"listwise_orders": 2, "game_orders": "both", "schedule": "all"}
    if find_definition(kind).settings is ChoiceJudgeSettings:
        changed |= {
            "judge": built_in_kind(TournamentSettings),
            "tournament_game": kind,
            "rubric": None,
        }
    values = {**{name: getattr(settings, name) for name in settings.model_fields_set}, **changed}
    settings_type = CalledAuditSettings.select_class(values)
    read = {name: value for name, value in values.items() if name in settings_type.model_fields}
    return settings_type.model_validate(read)


def _task_for(task: JudgeTask, kind: str) -> JudgeTask:
    """Return the task without an answer to compare with.

    For judges that are shown no more, it has prompt and responses only.
    """
    if not compares_responses(kind):
        return task
    judge = find_definition(kind)
    if not judge.fields:
        return JudgeTask(task.prompt, task.responses, traces=task.traces, images=task.images)
    return replace(task, baseline=None, reference=None if judge.has_baselines else task.reference)


def collect_judgments(
    targets: AuditTargets,
    settings: CalledAuditSettings,
    judged: Mapping[str, JudgedRows],
    unmeasured: Mapping[str, str],
) -> Judgments:
    """Return the judgments of the labelled rows.

    Args:
        targets: the rows.
        settings: the audit's settings.
        judged: the judged rows, by the name of the part.
        unmeasured: why checks are not measured.
    """
    main, again = judged[FIRST].by_uid, {*targets.sample_rows}
    numeric = targets.is_pairs or all(isinstance(row.gold, float) for row in targets.rows)
    orders = 2 if compares_responses(settings.judge) else 1

    def read_verdicts(group: Sequence[Sample[ScoreDetail]]) -> list[Value]:
        """Return the verdict in each order."""
        if not targets.is_pairs:
            (sample,) = group
            if numeric:
                return [_components(sample).get("raw", sample.score)]
            return [_judge_label(sample, settings)]
        if orders == 1:
            return [_find_winner([member.score for member in group])]
        first_components, second_components = map(_components, group)
        return [
            _find_winner([first_components.get(first), second_components.get(second)])
            for first, second in _POINTS
        ]

    rows: list[RowJudgments] = []
    samples: list[list[Sample[ScoreDetail]]] = []
    for number, row in enumerate(targets.rows):
        is_again = number in again
        of_repeats = [
            main[f"{repeat}/{number}"] for repeat in range(1 + is_again * settings.repeats)
        ]
        wordings = []
        if is_again:
            wordings = [name for name in judged if name.startswith(WORDING)]
        judged_row = replace(
            row,
            verdicts=[*map(read_verdicts, of_repeats)],
            paraphrases={
                name.removeprefix(WORDING): read_verdicts(judged[name].by_uid[f"0/{number}"])
                for name in wordings
            },
        )
        if settings.judge_api == "decisions":
            judged_row = replace(judged_row, probability=_find_probability(of_repeats[0], settings))
        if SECOND in judged:
            judged_row = replace(
                judged_row, scores=[scored.score for scored in judged[SECOND].by_uid[f"0/{number}"]]
            )
        rows.append(judged_row)
        samples.append([*chain.from_iterable(of_repeats)])
    source = f"{settings.data}, judge {settings.judge}"
    return replace(
        Judgments.from_rows(
            rows, is_choice=targets.is_pairs, judge=judged[FIRST].judge, source=source
        ),
        has_levels=find_scale(settings.judge, settings) is not None,
        operation=measure_operation(samples, judged[FIRST].run),
        left_out=targets.left_out,
        unmeasured=unmeasured,
        label_noise=settings.label_noise,
    )


def _find_winner(points: Sequence[float | None]) -> float | None:
    """Return the number of the response with the most points.

    A tie if several have them; `None` if some are not known.
    """
    values = [point for point in points if point is not None]
    if len(values) < len(points):
        return None
    if values.count(max(values)) > 1:
        return TIE
    return float(values.index(max(values)))


def _find_probability(group: Sequence[Sample[ScoreDetail]], settings: CalledAuditSettings) -> float:
    """Return a decision model's probability of an aspect, or that the first response is better.

    That of a response is its mean in both orders. NaN for other verdicts.
    """
    first = group[0]
    components = _components(first)
    if first.score is None:
        return math.nan
    if len(group) == 2 and components.keys() >= {*_POINTS[0]}:
        return sum(components[name] for name in _POINTS[0]) / 2
    is_aspect = settings.definition.judges_aspects and len(components) == 1
    if is_aspect and len(group) == 1:
        return next(iter(components.values()))
    return math.nan


def _components(sample: Sample[ScoreDetail]) -> Mapping[str, float]:
    """Return the numbers that make up the score; none for a response without a score."""
    if sample.detail is None:
        return {}
    return sample.detail.components


def _judge_label(sample: Sample[ScoreDetail], settings: AnyJudgeSettings) -> str | None:
    """Return the judge's label; a single aspect's is yes or no."""
    components = _components(sample)
    if settings.definition.judges_aspects and len(components) == 1 and sample.score is not None:
        if next(iter(components.values())) >= 0.5:  # a decision model's is a probability
            return "yes"
        return "no"
    if sample.score is not None:
        return sample.label
    return None
