"""Judgments of a finished run of `evaluate` or `score` whose rows have gold labels."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judgegym.engine.records import Sample
from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.engine.terminal.output import format_count
from judgegym.judges.core.judgment import CallRun
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON, mapping_or_empty
from judgegym.reports.results.run import SavedRun, find_scoring_run
from judgegym_trials.audit.judgments import TIE, Judgments, RowJudgments, Value
from judgegym_trials.audit.labels import LabelFile, parse_pair, parse_word
from judgegym_trials.audit.reading import A_JUDGE, NO_GOLD

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Floats

logger = logging.getLogger(__name__)

_REFUSED = frozenset({"content_filter", "refusal"})
_REVERSED = "reversed"
_RESPONSES = ("response", "answer")


def find_named_run(word: str) -> SavedRun | None:
    """Return the run that a word names: a run directory, or a file that `score` has written.

    `None` for any other file.
    """
    path = Path(word).expanduser()
    if path.is_dir() and not (path / "state.json").exists():
        return SavedRun.open(path)
    run_path = find_scoring_run(path)
    if run_path is None:
        return None
    return SavedRun.open(run_path)


def read_run_judgments(run: SavedRun, judge: str = "", labels: Path | None = None) -> Judgments:
    """Read the judgments of a run.

    Args:
        run: the run; if it is unfinished, its rows are audited, with a warning.
        judge: the judge's name, instead of the run's.
        labels: a file of labels by people, in addition to the rows' gold labels.

    Raises:
        DataError: no row has a gold label.
        RunDirectoryError: a file of the run is damaged.
    """
    everything = list(run.samples())
    label_file = None
    if labels is not None:
        label_file = LabelFile(labels)
    samples = [sample for sample in everything if sample.gold]
    if not samples and label_file is not None:
        labelled = [sample for sample in everything if sample.uid in label_file]
        samples = [sample for sample in labelled if sample.headline is not None]
    if not samples:
        raise DataError(
            f"{run.path}: no row has a gold label; expected a run in which a judge is measured: "
            "pairwise_judgement, role=judge, score_responses, or score --gold_column; or labels of "
            "its rows (--labels)"
        )
    source = str(run.path)
    if not run.is_complete:
        source += ", which is not finished"
        logger.warning(
            "%s: the %s that it has are audited", source, format_count(len(everything), "row")
        )
    judge_name = run.judge
    if not run.is_scored and not samples[0].run.judge_calls:
        judge_name = run.policy or run.judge
    probabilities = _has_probabilities(run)
    if samples[0].gold:
        is_choice = any(name.startswith("answer A") for name in samples[0].texts)
        if is_choice:
            rows = [[_read_choice(sample)] for sample in samples]
        else:
            rows = [_read_labels(sample, probabilities=probabilities) for sample in samples]
    else:
        is_choice = run.judge_definition is not None and run.judge_definition.has_baselines
        values = {sample.headline.value for sample in samples if sample.headline is not None}
        judged = [sample for sample in samples if sample.score is not None]
        probabilities &= all(len(_list_components(sample)) == 1 for sample in judged)
        is_word = values <= {0.0, 1.0} or probabilities
        if is_choice:
            rows = [[_read_comparison(sample)] for sample in samples]
        else:
            rows = [
                [_read_single(sample, is_word=is_word, probabilities=probabilities)]
                for sample in samples
            ]
    if label_file is not None:
        for sample, of_sample in zip(samples, rows, strict=True):
            label_file.check_row(sample)
            kind = parse_pair if is_choice else _make_label_converter(of_sample[0], run)
            of_sample[0] = label_file.label_row(of_sample[0], kind, uid=sample.uid)
        label_file.check_used(str(run.path))
        rows = [[row for row in of_sample if row.gold is not None] for of_sample in rows]
    # A sample's calls count for its first label only.
    call_samples: list[list[Sample[JSON]]] = []
    for sample, of_sample in zip(samples, rows, strict=True):
        call_samples += [[sample][label:] for label in range(len(of_sample))]
    judgments = [*chain.from_iterable(rows)]
    left_out = {}
    if len(everything) > len(samples):
        left_out[NO_GOLD] = len(everything) - len(samples)
    return replace(
        Judgments.from_rows(
            judgments, is_choice=is_choice, judge=judge or judge_name or A_JUDGE, source=source
        ),
        has_levels=run.judge_scale is not None,
        operation=measure_operation(call_samples, run.path),
        left_out=left_out,
    )


def _read_choice(sample: Sample[JSON]) -> RowJudgments:
    """Return a choice of the best of several answers by letter, in one order or both."""
    texts = [text for name, text in sample.texts.items() if name.startswith("answer ")]

    def number(letter: object, name: str) -> float | None:
        """Return a response's number, by its letter in an order of this name."""
        if letter is None:
            return None
        place = ord(str(letter)) - ord("A")
        return float(len(texts) - 1 - place if name == _REVERSED else place)

    return RowJudgments(
        sample.uid,
        number(sample.gold[-1].gold, sample.gold[-1].name),
        [[number(label.judge, label.name) for label in sample.gold]],
        responses=texts,
        cluster=sample.question,  # rows with the same question depend on each other
        category=sample.category,
    )


def _has_probabilities(run: SavedRun) -> bool:
    """Return whether a run's verdicts on aspects are a decision model's probabilities of yes."""
    settings, definition = run.judge_settings, run.judge_definition
    if definition is None or not definition.judges_aspects or not run.is_scored:
        return False
    return settings.get("judge_api") == "decisions" and settings.get("scoring") == "share"


def _read_labels(sample: Sample[JSON], *, probabilities: bool) -> list[RowJudgments]:
    """Return a response's labels or scores, each as a row of the audit.

    The response is a text of the row if the policy is the judge, otherwise the completion.

    Args:
        sample: the response with its labels.
        probabilities: the components of its score are probabilities of yes.
    """
    texts = [sample.texts[name] for name in _RESPONSES if name in sample.texts]
    components = _list_components(sample) if probabilities else {}
    return [
        RowJudgments(
            f"{sample.uid}:{label.name}" if label.name else sample.uid,
            label.gold,
            [[label.judge]],
            responses=texts[:1] or [completion.answer for completion in sample.completions[:1]],
            cluster=sample.question,
            category=sample.category or label.name or None,
            probability=_find_probability(components, label.name),
        )
        for label in sample.gold
    ]


def _list_components(sample: Sample[JSON]) -> Mapping[str, JSON]:
    """Return the numbers that make up a sample's score; none without a score."""
    if sample.score is None:
        return {}
    return mapping_or_empty(mapping_or_empty(sample.detail).get("components"))


def _find_probability(components: Mapping[str, JSON], name: str) -> float:
    """Return the component of this name, or the only one for no name; NaN if there is none."""
    value = components.get(name)
    if not name and len(components) == 1:
        (value,) = components.values()
    return float(value) if isinstance(value, int | float) else math.nan


def _read_comparison(sample: Sample[JSON]) -> RowJudgments:
    """Return the comparison with a baseline, without gold; the response is number 0."""
    points = [*sample.orders.values()] or [
        sample.headline.value if sample.headline is not None else math.nan
    ]
    return RowJudgments(
        sample.uid,
        None,
        [[TIE if point == 0.5 else float(point < 0.5) for point in points]],
        responses=[sample.completions[0].answer, sample.texts.get("baseline", "")],
        cluster=sample.question,
        category=sample.category,
    )


def _read_single(sample: Sample[JSON], *, is_word: bool, probabilities: bool) -> RowJudgments:
    """Return the value of a single response, without gold: yes or no, or a score from 0 to 1.

    Args:
        sample: the response.
        is_word: the value is yes or no.
        probabilities: the value is the probability of a pass.
    """
    value = sample.headline.value if sample.headline is not None else math.nan
    probability = math.nan
    if probabilities:
        probability = value if sample.score is not None else math.nan
        value = float(value >= 0.5)
    return RowJudgments(
        sample.uid,
        None,
        [[parse_word(value) if is_word else value]],
        responses=[completion.answer for completion in sample.completions[:1]],
        cluster=sample.question,
        category=sample.category,
        probability=probability,
    )


def _make_label_converter(row: RowJudgments, run: SavedRun) -> Callable[[float], Value]:
    """Return the converter of labels from 0 to 1 to the terms of a row's gold.

    They become yes or no, a place on the judge's scale, or stay.
    """
    if isinstance(row.verdicts[0][0] if row.gold is None else row.gold, str):
        return parse_word
    scale = run.judge_scale
    if row.gold is None or scale is None:
        return float
    return lambda label: scale.low + label * scale.span


def measure_operation(
    rows: Sequence[Sequence[Sample[Any]]], run: Path
) -> Mapping[str, tuple[Floats, Floats]]:
    """Measure the judge's calls, for `Judgments.operation`.

    Args:
        rows: the samples of each row of the audit.
        run: the run directory; its ledger tells which calls were refused or had no verdict.
    """
    import numpy as np

    of_policy = not any(sample.run.judge_calls for sample in chain.from_iterable(rows))

    def list_calls(sample: Sample[Any]) -> Iterable[CallRun]:
        if of_policy:
            return sample.run.policy_calls
        return (sample.run.judge_calls or {}).values()

    made = [[*chain.from_iterable(map(list_calls, of_row))] for of_row in rows]
    if not any(made):
        return {}
    seconds = np.array([sum(call.latency_s for call in calls) for calls in made])
    operation = {"seconds_per_call": (seconds, np.array([float(len(calls)) for calls in made]))}
    costs = [[call.usage.cost for call in calls] for calls in made]
    if not any(None in row_costs for row_costs in costs):
        operation["dollars_per_row"] = (
            np.array([sum(cost or 0.0 for cost in known_costs) for known_costs in costs]),
            np.ones(len(rows)),
        )
    places: dict[str, int] = {}
    for place, of_row in enumerate(rows):
        for sample in of_row:
            places[sample.uid.partition("/")[0]] = place
            places[sample.uid] = place
    # Numbers of calls, of those without a verdict, of refused ones.
    ledger = np.zeros((len(rows), 3))
    for call in read_calls(run):
        if call.is_policy_call is of_policy and call.row in places:
            choice = call.answer.first
            is_refused = bool(choice.refusal) or choice.finish_reason in _REFUSED
            ledger[places[call.row]] += (1, not call.has_verdict, is_refused)
    if ledger.any():
        calls, redraws, refusals = ledger.T
        operation |= {"redraw_rate": (redraws, calls), "refusal_rate": (refusals, calls)}
    return operation
