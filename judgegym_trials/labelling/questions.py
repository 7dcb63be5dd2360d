"""Questions to labellers about a run's rows; labels are on the scale of the row's headline value.

A comparison asks which response is better; a win of the policy is 1, a tie 0.5. For a judge with a
scale, labellers give a score on it, which becomes the reward from 0 to 1 that the run counts; for a
prompt file with labels, one of its labels. Aspects are asked one by one and combined as the judge
combines them. For any other run with values from 0 to 1, labellers say whether the response passes,
if its judge only says yes or no; otherwise they choose one of five levels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from judgegym.engine.records import Sample
from judgegym.judges.aspects.judge import AspectDetail, combined_score
from judgegym.judges.aspects.prompt import Aspect
from judgegym.judges.core.judgment import Scale
from judgegym.judges.rubrics.prompt import RubricJudgeSettings
from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON
from judgegym.reports.labels.file import row_digest
from judgegym.reports.results.run import SavedRun, list_objects

BASELINE = "baseline"
_COMPARES = (
    "its judge compares responses with each other, so that no response has a value of its own"
)
_REFUSED = {
    "pairwise_judgement": "its rows have gold labels; judgegym audit compares the judge with them",
    "self_critique": (
        "its rows compare several candidates, so that no response has a value of its own"
    ),
}
_COUNTS_POINTS = (
    "its judge counts points of many criteria, which a label of the whole response does not"
)
_MOST_KEYS = 10
_LEVELS = 5


@dataclass(frozen=True, slots=True)
class Option:
    """Option of a labeller: its key, its text, and its value."""

    key: str
    words: str
    value: float


@dataclass(frozen=True, slots=True)
class QuestionPart:
    """One question about a row; it has a name if there are several."""

    text: str
    options: tuple[Option, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class RowQuestion:
    """The question about each row.

    Attributes:
        parts: the questions, asked one after the other.
        compares: whether the response is shown with a baseline, in an order that labellers do not
            know; the options' values are those of the first response.
        combine: computes the label from the parts' values.
    """

    parts: tuple[QuestionPart, ...]
    compares: bool = False
    combine: Callable[[Sequence[float]], float] = lambda values: values[0]

    def label(self, keys: str, *, is_first: bool) -> tuple[float, Mapping[str, float]]:
        """Return the label, and each part's value if there are several.

        Args:
            keys: a key for each part.
            is_first: whether the policy's response is shown first.
        """
        values = [
            next(option.value for option in part.options if option.key == key)
            for part, key in zip(self.parts, keys, strict=True)
        ]
        if self.compares and not is_first:
            values = [1.0 - value for value in values]
        parts = {
            part.name: value for part, value in zip(self.parts, values, strict=True) if part.name
        }
        return self.combine(values), parts


def read_headline_values(run: SavedRun) -> tuple[dict[str, float], dict[str, str]]:
    """Return the headline value and a digest of each row that a run counts, by id.

    The digest is of what a labeller sees.

    Raises:
        DataError: the run is unfinished, or a row has not exactly one response.
    """
    if not run.is_complete:
        raise DataError(
            f"{run.path}: the run is unfinished and lacks rows; finish it with --resume"
        )
    refused = _find_refusal(run)
    if refused is not None:
        raise DataError(f"{run.path} cannot be labelled: {refused}")
    judge = run.judge_definition
    values, digests = dict[str, float](), dict[str, str]()
    for sample in run.samples():
        if sample.headline is None or sample.headline.weight <= 0:
            continue
        if len(sample.completions) != 1:
            count = len(sample.completions)
            problem = f"row {sample.uid!r} has {count} completions"
            raise DataError(
                f"{run.path} cannot be labelled: {problem}; expected one completion, which is "
                "labelled"
            )
        if judge is not None and judge.has_baselines and BASELINE not in sample.texts:
            raise DataError(
                f"{run.path} cannot be labelled: row {sample.uid!r} has no baseline, and "
                f"{_COMPARES}"
            )
        if judge is not None and judge.judges_aspects and "aspects" in sample.texts:
            raise DataError(
                f"{run.path} cannot be labelled: row {sample.uid!r} has aspects of its own"
            )
        values[sample.uid], digests[sample.uid] = sample.headline.value, row_digest(sample)
    if not values:
        headline = run.general.get("headline")
        raise DataError(f"{run.path} cannot be labelled: no row has a value in {headline}")
    return values, digests


def _find_refusal(run: SavedRun) -> str | None:
    """Return why a run's rows cannot be labelled; `None` if they can."""
    judge = run.judge_definition
    if wire.lookup(run.config, "env.role") == "judge":
        return _REFUSED["pairwise_judgement"]
    if run.environment in _REFUSED or judge is None:
        return _REFUSED.get(run.environment)
    if "criteria" in judge.fields:
        return _COUNTS_POINTS
    if judge.needs_group:
        return _COMPARES
    return None


def make_question(run: SavedRun, values: Collection[float]) -> RowQuestion:
    """Return the question about a run's rows, which have these headline values.

    Raises:
        DataError: values are not from 0 to 1, so no scale of labels is known.
    """
    judge, settings = run.judge_definition, run.judge_settings
    if judge is not None and judge.has_baselines:
        options = (
            Option("a", "A is better", 1.0),
            Option("b", "B is better", 0.0),
            Option("t", "tie", 0.5),
        )
        return RowQuestion((QuestionPart("Which response is better?", options),), compares=True)
    if judge is not None and judge.judges_aspects:
        return _make_aspect_question(
            [Aspect.model_validate(aspect) for aspect in list_objects(settings, "aspects")]
        )
    if run.judge_scale is not None:
        if judge is not None and judge.settings is RubricJudgeSettings:
            words = "How good is the response, by the rubric?"
        else:
            words = "How good is the response?"
        return RowQuestion((QuestionPart(words, _level_options(run.judge_scale)),))
    if 0 < len(run.judge_labels) < _MOST_KEYS:
        labels = enumerate(run.judge_labels.items(), start=1)
        parts = QuestionPart(
            "Which label has the response?",
            tuple(Option(str(key), *label_value) for key, label_value in labels),
        )
        return RowQuestion((parts,))
    lowest, highest = min(values), max(values)
    if lowest < 0 or highest > 1:
        problem = f"its values go from {lowest:g} to {highest:g}"
        raise DataError(f"{run.path} cannot be labelled: {problem}; expected values from 0 to 1")
    if {*values} <= {0.0, 1.0}:
        answers = (Option("y", "yes", 1.0), Option("n", "no", 0.0))
        return RowQuestion((QuestionPart("Does the response pass?", answers),))
    levels = _level_options(Scale(1, _LEVELS))
    return RowQuestion(
        (QuestionPart("How good is the response? (1 is bad, 5 is excellent)", levels),)
    )


def _level_options(scale: Scale) -> tuple[Option, ...]:
    """Return an option for each level of a scale, or five if there are more levels than keys."""
    levels: Sequence[float] = scale.levels
    if len(levels) > _MOST_KEYS:
        levels = [scale.low + scale.span * step / (_LEVELS - 1) for step in range(_LEVELS)]
        return tuple(
            Option(str(key), f"{at:g}", scale.unit(at)) for key, at in enumerate(levels, start=1)
        )
    digits = {10: "0"}
    if 0 in levels:
        digits = {}
    keys = [digits.get(int(at), str(at)) for at in levels]
    if any(len(key) != 1 for key in keys):  # a scale from −2 to 2
        keys = [str(number) for number in range(1, len(levels) + 1)]
    return tuple(
        Option(key, f"{at:g}", scale.unit(at)) for key, at in zip(keys, levels, strict=True)
    )


def _make_aspect_question(aspects: Sequence[Aspect]) -> RowQuestion:
    options = (Option("y", "yes", 1.0), Option("n", "no", 0.0))

    def combine(values: Sequence[float]) -> float:
        verdicts = [
            AspectDetail(aspect.name, value == 1.0, value, 1.0, "", (), 1, 1)
            for aspect, value in zip(aspects, values, strict=True)
        ]
        return combined_score(aspects, verdicts, "majority")[0]

    return RowQuestion(
        tuple(QuestionPart(criterion.definition, options, criterion.name) for criterion in aspects),
        combine=combine,
    )


def list_label_texts(
    sample: Sample[JSON], *, is_first: bool, compares: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts to read, by title: the row's, and the responses in the page's order."""
    about = {"question": sample.question, **sample.texts}
    response = sample.completions[0].answer
    if not compares:
        return about, {"response": response}
    both = [response, about.pop(BASELINE)]
    if not is_first:
        both.reverse()
    return about, dict(zip(("response A", "response B"), both, strict=True))
