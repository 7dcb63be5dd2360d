"""Rubric judge's prompt, settings and score parser, also used by policies with `role=judge`.

In the default format and layout, with a reference and the scale from 1 to 5, prompt and layout are
the specification's, byte for byte. `result` asks for the format that Prometheus judges are trained
on. The stand-in reply for offline runs has the format and the scale of the prompt.

With `weighting=logprobs` the score is the expected score: the mean over the judge's token
probabilities, in place of the sampled number.

Sources: Kim et al., Prometheus: Inducing Fine-grained Evaluation Capability in Language Models
(2023); Liu et al., G-Eval: NLG Evaluation using GPT-4 with Better Human Alignment (2023), section
2: Σ p(s)·s over the scores s of the scale.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from pydantic import ValidationInfo, field_validator

from judgegym.judges import prompts
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import PromptLayout, PromptLayoutSettings
from judgegym.judges.core.calls import MAX_VOTES, NoVerdict
from judgegym.judges.core.delimiters import Lookalikes, Prompt
from judgegym.judges.core.judgment import Scale
from judgegym.judges.core.message_template import MessageTemplate, join_instructions
from judgegym.judges.core.prompt_format import PromptFormat, StandInPrompt
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.rubric_scores import (
    RubricFormat,
    feedback_score,
    feedback_text,
    prometheus_result,
)
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON, Choice, Token

REQUEST: Mapping[str, JSON] = {"logprobs": True, "top_logprobs": 20}
"""The fields that a request must have."""
LEAST_MASS = 0.5
"""Least total probability of the scale's tokens; below it the expected score is unreliable."""


def mean_score(probabilities: Mapping[int, float]) -> float:
    """Return the mean of scores with their probabilities, which add up to 1."""
    if len(probabilities) == 1:
        return float(next(iter(probabilities)))  # exact: a product might round
    return math.fsum(score * probability for score, probability in probabilities.items())


def score_probabilities(
    choice: Choice, scale: Scale, *, tag: str | re.Pattern[str]
) -> Mapping[int, float] | NoVerdict:
    """Return the probability of each score at the token that holds the score.

    White space around tokens is ignored, the probabilities of tokens with the same score are added,
    and the probabilities of the scale's scores are renormalised.

    Args:
        choice: a judge's answer that has a score.
        scale: the scores; single digits, because a token may hold only the first digit of a longer
            number.
        tag: the text before the score, in any case, or its pattern; its last occurrence counts.

    Returns:
        The probabilities, or why there are none.

    Raises:
        SettingsError: the endpoint returned no probabilities.
    """
    if choice.tokens is None:
        raise SettingsError(
            "weighting=logprobs: the judge's endpoint returns no top_logprobs; take another "
            "endpoint, or weighting=none"
        )
    token = _find_score_token(tag, choice.tokens)
    if token is None:
        return NoVerdict("the score has no token of its own")
    mass: dict[int, float] = {}
    for text, logprob in token.top:
        digits = text.strip()
        if len(digits) == 1 and digits in "0123456789" and int(digits) in scale.levels:
            mass[int(digits)] = mass.get(int(digits), 0.0) + math.exp(min(logprob, 0.0))
    total = math.fsum(mass.values())
    if not total >= LEAST_MASS:  # true for NaN, too
        return NoVerdict(
            f"the scale's tokens have {total:.2f} of the probability; expected {LEAST_MASS} or more"
        )
    return {score: probability / total for score, probability in mass.items()}


def check_scale(scale: Scale) -> None:
    """Check that every score of a scale is one token.

    Raises:
        SettingsError: a score has more than one digit or a sign.
    """
    if scale.low < 0 or scale.high > 9:
        raise SettingsError(
            f"weighting=logprobs needs scores of one digit, and the scale goes from {scale.low} to "
            f"{scale.high}"
        )


def _find_score_token(tag: str | re.Pattern[str], tokens: tuple[Token, ...]) -> Token | None:
    """Return the first token with a digit after the last tag.

    `None` if that token begins within the tag.
    """
    text = "".join(token.text for token in tokens)
    pattern = re.compile(re.escape(tag), re.IGNORECASE) if isinstance(tag, str) else tag
    tags = list(pattern.finditer(text))
    if not tags:
        return None
    end, start = tags[-1].end(), 0
    for token in tokens:
        if start + len(token.text) > end and any(character.isdigit() for character in token.text):
            if start < end:
                return None
            return token
        start += len(token.text)
    return None


_ORDER: Mapping[PromptLayout, tuple[str, ...]] = {
    "published": ("prompt", "reference", "rubric"),
    "shared_first": ("rubric", "prompt", "reference"),
}
"""The texts before the response."""
_LOOKALIKES = Lookalikes(
    "#instruction",
    "#reference response",
    "#score rubric",
    "#response to evaluate",
    "please evaluate the response according to",
)
_INSTRUCTION = "### Instruction{tag}\n\n{prompt}"
_REFERENCE = "### Reference Response{tag}\n\n{reference}"
_RUBRIC = "### Score Rubric{tag}\n\n{rubric}"
_RESPONSE = "### Response To Evaluate{tag}\n\n{response}"
_END = "### End Of Response To Evaluate{tag}"
_REQUEST = "Please evaluate the response according to the score rubric"
_TEMPLATES: Mapping[PromptLayout, MessageTemplate] = {
    "published": MessageTemplate(
        (_INSTRUCTION, _REFERENCE, _RUBRIC, _RESPONSE, "---{tag}", f"{_REQUEST} above."),
        _LOOKALIKES,
    ),
    "shared_first": MessageTemplate(
        (f"{_REQUEST} below.", _RUBRIC, _INSTRUCTION, _REFERENCE, _RESPONSE, _END), _LOOKALIKES
    ),
}
TAGS: Mapping[RubricFormat, tuple[str, str]] = {
    "feedback_score": ("[FEEDBACK]", "[SCORE]"),
    "result": ("Feedback:", "[RESULT]"),
}
SCORE_PARSERS = {"feedback_score": feedback_score, "result": prometheus_result}
"""Of the score at the end of a judge's text, by its format."""


@dataclass(frozen=True, slots=True)
class Rubric:
    """Question by which responses are scored, with its scale.

    >>> print(Rubric("Is it short?", {1: "An essay.", 5: "A word."}).text)
    Is it short?
    Score 1: An essay.
    Score 5: A word.

    Attributes:
        criteria: the rubric's question.
        levels: the descriptions of scores; empty if the rubric has only the question.
        scale: the scale of the scores.
    """

    criteria: str
    levels: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    scale: Scale = Scale()

    @property
    def text(self) -> str:
        """The rubric as the prompt shows it: the question, then a line for each described score."""
        lines = [
            f"Score {level}: {self.levels[level]}"
            for level in self.scale.levels
            if level in self.levels
        ]
        return "\n".join([self.criteria, *lines])

    @property
    def text_with_scale(self) -> str:
        """The rubric for a judge without a scale: it says which of the described scores is best."""
        if not self.levels:
            return self.criteria
        return (
            f"{self.text}\nIn these descriptions {self.scale.low} is the worst score and "
            f"{self.scale.high} the best."
        )


def rubric_prompt(
    rubric: Rubric, task: JudgeTask, settings: RubricJudgeSettings, *, system: str = ""
) -> Prompt:
    """Return the judge's prompt.

    Without a reference it lacks that section and the sentence about it.

    In `shared_first` the rubric comes before the instruction, because several rows may share it,
    and only the response's end marker follows the response.

    Args:
        rubric: the rubric.
        task: the instruction with one response, and with a reference if there is one.
        settings: the format of the judge's answer, the order of the sections, and the text that
            replaces the built-in system prompt.
        system: text before the system prompt.
    """
    layout, instructions = settings.judge_prompt_layout, settings.judge_system_prompt
    reference = task.reference or None  # an empty reference counts as none
    if instructions is None:
        instructions = rubric_instructions(
            rubric.scale, settings.output_format, layout, with_reference=reference is not None
        )
    sections = {"prompt": task.prompt, "reference": reference, "rubric": rubric.text}
    return _TEMPLATES[layout].fill(
        {name: sections[name] for name in _ORDER[layout]},
        {"response": task.response},
        system=join_instructions(system, instructions),
    )


@lru_cache(maxsize=64)  # the same for all tasks
def rubric_instructions(
    scale: Scale,
    output_format: RubricFormat,
    layout: PromptLayout = "published",
    *,
    with_reference: bool,
) -> str:
    """Return the system prompt, which names the sections in their order.

    With the scale from 1 to 5, a reference, `feedback_score` and the published layout, it is the
    specification's.
    """
    feedback, score = TAGS[output_format]
    reference = f"a reference answer that gets a score of {scale.high}, "
    names = {
        "prompt": "an instruction, ",
        "reference": reference if with_reference else "",
        "rubric": "a score rubric representing an evaluation criterion, ",
    }
    words = {
        "given": "".join(names[section] for section in _ORDER[layout]),
        "scale": scale.sentence,
        "feedback": feedback,
        "score": score,
        "low": str(scale.low),
        "high": str(scale.high),
    }
    return prompts.fill(prompts.load("rubric_absolute"), words)


Weighting = Literal["none", "logprobs"]
Pooling = Literal["mean", "median"]


class RubricJudgeSettings(PromptLayoutSettings):
    """Settings of the rubric judge: output format, scale, and pooling of several judgments."""

    output_format: RubricFormat = setting("feedback_score")
    """Ask the judge to answer in this format. feedback_score: [FEEDBACK] … [SCORE] n. result:
    Feedback: … [RESULT] n, which Prometheus models are trained on."""
    scale_min: int = setting(1)
    """Use this as the lowest score of the scale."""
    scale_max: int = setting(5, validate_default=True)
    """Use this as the highest score of the scale; above scale_min."""
    samples_per_item: int = setting(1, ge=1, le=MAX_VOTES)
    """Ask for this many independent judgments of each response, one call each."""
    samples_pooling: Pooling = setting("mean")
    """Pool the judgments of one response into their mean or their median."""
    weighting: Weighting = setting("none")
    """Choose how a score is read. none: from the text. logprobs: the expected score over the
    scale's tokens; the endpoint must return top_logprobs."""

    @field_validator("scale_max")
    @classmethod
    def _is_above_lowest(cls, value: int, info: ValidationInfo) -> int:
        lowest = info.data.get("scale_min", value - 1)
        if lowest >= value:
            raise ValueError(f"scale_max ({value}) must be above scale_min ({lowest})")
        return value

    @field_validator("weighting")
    @classmethod
    def _fits_scale(cls, value: Weighting, info: ValidationInfo) -> Weighting:
        if value == "logprobs" and {"scale_min", "scale_max"} <= info.data.keys():
            try:
                check_scale(Scale(info.data["scale_min"], info.data["scale_max"]))
            except SettingsError as error:
                raise ValueError(str(error)) from error
        return value

    @property
    def scale(self) -> Scale:
        """The scale of the scores, from lowest to highest."""
        return Scale(self.scale_min, self.scale_max)

    def vote_count(self) -> int:
        """Return the number of judgments of each response."""
        return self.samples_per_item

    def built_in_prompt(self) -> str:
        """Return the system prompt for rows with a reference."""
        return rubric_instructions(
            self.scale, self.output_format, self.judge_prompt_layout, with_reference=True
        )


_SCALE = re.compile(r"\ban integer (?:number )?between (-?[0-9]{1,9}) and (-?[0-9]{1,9})\b")
_USUAL_SCALE = (1, 5)
_SCORE = re.compile(r"-?[0-9]+\Z")


def _draft_reply(shown: StandInPrompt) -> str:
    match = _SCALE.search(shown.instructions)
    low, high = _USUAL_SCALE
    if match:
        low, high = int(match[1]), int(match[2])
    if low >= high:
        low, high = _USUAL_SCALE
    score = low + int((high - low + 1) * shown.merit)
    level = "a middle"
    if score in (low, high):
        level = "the best" if score == high else "the worst"
    feedback = (
        f"By the words that the response shares with the instruction, this is {level} level of the "
        "rubric."
    )
    if shown.instructions.rfind("[RESULT]") > shown.instructions.rfind("[SCORE]"):
        return f"Feedback: {feedback} [RESULT] {score}"
    return f"[FEEDBACK] {feedback}\n[SCORE] {score}"


def _parse_reply(reply: str) -> Mapping[str, JSON]:
    score = _SCORE.search(reply)
    return {"feedback": feedback_text(reply), "score": None if score is None else int(score[0])}


RUBRIC_PROMPT = PromptFormat(
    sections=("Instruction", "Score Rubric", "Response To Evaluate"),
    optional=("Reference Response", "End Of Response To Evaluate"),
    judged=("Response To Evaluate",),
    question="Instruction",
    references=("Reference Response",),
    ending=f"{_REQUEST} above.",
    reply=_draft_reply,
    fields=_parse_reply,
)
