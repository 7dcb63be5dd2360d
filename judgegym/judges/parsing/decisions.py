"""Typed questions to decision models, and the reading of their answers.

An answer is read only if it is whole and consistent: it reports no error, its type is that of the
question, a probability is from 0 to 1, those of a choice are of its labels and add up to 1, the
choice is the likeliest label, and a score is within its levels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judgegym.llm.template_tokens import break_up_tokens
from judgegym.llm.wire import JSON, mapping_or_empty

QuestionType = Literal["noul", "choice", "score"]

MOST_LEVELS, MOST_LABELS = 10, 255
"""The most levels of a score, and the most labels of a choice."""
TRUE, FALSE = "true", "false"
"""The labels of a yes/no question."""
_TOLERANCE, _TOLERANCE_PER_LABEL = 0.02, 0.005
"""How far probabilities may add up to another number than 1: gateways round them."""
_EXCESS = 1e-5
"""How far a number may be outside its range: gateways compute in single precision."""


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """One typed question.

    Attributes:
        type: `noul` (yes or no), `choice` (one of several labels) or `score` (one of ordered
            levels).
        instructions: what is asked.
        labels: the labels of a choice, with a description or `None`.
        levels: the descriptions of a score's levels, lowest first.
    """

    type: QuestionType
    instructions: str
    labels: tuple[tuple[str, str | None], ...] = ()
    levels: tuple[str, ...] = ()

    def to_json(self) -> JSON:
        """Return the question as it is sent, without role tokens: its words may be a row's."""
        instructions = break_up_tokens(self.instructions).text
        question: dict[str, JSON] = {"type": self.type, "instructions": instructions}
        if self.type == "choice":
            question["criteria"] = dict(self.labels)
        elif self.type == "score":
            question["criteria"] = [break_up_tokens(level).text for level in self.levels]
        return question


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a typed question.

    Attributes:
        probabilities: by label (`true` and `false` for yes/no, the level's index from 0 for a
            score); empty for a score whose endpoint sends none.
        expected: the probability of yes, or the expected index of a score's level; of a choice the
            probability of the likeliest label.
        label: the likeliest label; of a score without probabilities the nearest level's index.
    """

    probabilities: Mapping[str, float]
    expected: float
    label: str

    @property
    def probability(self) -> float | None:
        """The probability of the likeliest label; `None` if the endpoint sends none."""
        return self.probabilities.get(self.label)


def describe_decision(decision: Decision, question: DecisionQuestion) -> str:
    """Return a decision in words: the likeliest label or level, and its probability.

    >>> noul = DecisionQuestion("noul", "Is it so?")
    >>> describe_decision(Decision({"true": 0.9, "false": 0.1}, 0.9, "true"), noul)
    'true: 0.9'
    """
    label = decision.label
    if question.levels:
        label = question.levels[int(label)]
    if decision.probability is None:
        return label
    return f"{label}: {decision.probability:.4g}"


def read_decision(answer: Mapping[str, JSON], question: DecisionQuestion) -> Decision | str:
    """Return the decision of an answer, or what is wrong with it."""
    if answer.get("type", question.type) != question.type:
        return f"another type than {question.type}"
    if answer.get("error"):
        return "an error"
    if question.type == "noul":
        return _read_noul(answer)
    if question.type == "choice":
        return _read_choice(answer, [label for label, _ in question.labels])
    return _read_score(answer, len(question.levels))


def _read_noul(answer: Mapping[str, JSON]) -> Decision | str:
    yes = _read_number(answer.get("noul"), 1.0)
    if yes is None:
        return "no probability of yes"
    label = TRUE if yes >= 0.5 else FALSE
    return Decision({TRUE: yes, FALSE: 1.0 - yes}, yes, label)


def _read_choice(answer: Mapping[str, JSON], labels: Sequence[str]) -> Decision | str:
    label, probabilities = answer.get("choice"), _read_probabilities(answer, labels)
    if isinstance(probabilities, str):
        return probabilities
    if not isinstance(label, str) or label not in labels:
        return "no choice among the labels"
    if probabilities[label] < max(probabilities.values()):
        return "a choice that is not the likeliest label"
    return Decision(probabilities, probabilities[label], label)


def _read_score(answer: Mapping[str, JSON], count: int) -> Decision | str:
    labels = [str(index) for index in range(count)]
    score = _read_number(answer.get("score"), count - 1.0)
    if score is None:
        return f"no score from 0 to {count - 1}"
    nearest = str(min(count - 1, math.floor(score + 0.5)))
    if answer.get("probabilities") is None:
        return Decision({}, score, nearest)
    probabilities = _read_probabilities(answer, labels)
    if isinstance(probabilities, str):
        return probabilities
    mean = math.fsum(index * probabilities[label] for index, label in enumerate(labels))
    if abs(mean - score) > _tolerance(count) * (count - 1):
        return "a score that its probabilities do not give"
    likeliest = max(labels, key=lambda label: (probabilities[label], -abs(int(label) - score)))
    return Decision(probabilities, score, likeliest)


def _read_probabilities(
    answer: Mapping[str, JSON], labels: Sequence[str]
) -> dict[str, float] | str:
    """Return the probability of each label, or what is wrong; a label left out has 0."""
    read = dict[str, float]()
    for label, value in mapping_or_empty(answer.get("probabilities")).items():
        probability = _read_number(value, 1.0)
        if label not in labels or probability is None:
            return "a probability of an unknown label, or one that is not from 0 to 1"
        read[label] = probability
    if not read or abs(math.fsum(read.values()) - 1.0) > _tolerance(len(labels)):
        return "no probabilities that add up to 1"
    return {label: read.get(label, 0.0) for label in labels}


def _tolerance(count: int) -> float:
    return _TOLERANCE + _TOLERANCE_PER_LABEL * min(count, MOST_LEVELS)


def _read_number(value: JSON, highest: float) -> float | None:
    """Return a number from 0 to the highest; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not -_EXCESS <= value <= highest + _EXCESS:
        return None
    return min(highest, max(0.0, float(value)))
