"""The rubric judge's prompt and the parser of its score, shared by judges and by policies with `role=judge`.

In the default format, with a reference and the scale from 1 to 5, prompt and layout are the specification's, byte for
byte. `result` asks for the format that Prometheus judges are trained on.

Source: Kim et al., Prometheus: Inducing Fine-grained Evaluation Capability in Language Models (2023).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from judges import prompts
from judges.core.delimiters import Prompt, fence
from judges.core.scale import Scale
from judges.llm.wire import Message
from judges.parsing.verdicts import RubricFormat, feedback_score, prometheus_result

_HEADINGS = ("instruction", "reference response", "score rubric", "response to evaluate")
_LOOKALIKES = (
    *(f"#{heading}" for heading in _HEADINGS),
    "please evaluate the response according to",
)
TAGS: Mapping[RubricFormat, tuple[str, str]] = {
    "feedback_score": ("[FEEDBACK]", "[SCORE]"),
    "result": ("Feedback:", "[RESULT]"),
}


@dataclass(frozen=True, slots=True)
class Rubric:
    """A question by which responses are scored, and its scale.

    >>> print(Rubric("Is it short?", {1: "An essay.", 5: "A word."}).text)
    Is it short?
    Score 1: An essay.
    Score 5: A word.

    Attributes:
        criteria: the question that the rubric asks.
        levels: the descriptions of scores; empty if the rubric has only the question.
        scale: the scale of the scores.
    """

    criteria: str
    levels: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    scale: Scale = Scale()

    @property
    def text(self) -> str:
        """The rubric as the prompt shows it: the question, then a line for each description of a score."""
        lines = [f"Score {level}: {self.levels[level]}" for level in self.scale.levels if level in self.levels]
        return "\n".join([self.criteria, *lines])


def read_score(text: str, output_format: RubricFormat, scale: Scale) -> int | None:
    """The score at the end of a judge's text, in this format; `None` if none can be read."""
    parse = feedback_score if output_format == "feedback_score" else prometheus_result
    return parse(text, scale)


def rubric_prompt(
    instruction: str,
    response: str,
    rubric: Rubric,
    reference: str | None = None,
    *,
    output_format: RubricFormat = "feedback_score",
    system_prompt: str | None = None,
    system: str = "",
) -> Prompt:
    """The judge's prompt; without a reference it has neither the section nor the sentence about it.

    Args:
        instruction: the instruction that the response answers.
        response: the text under judgment.
        rubric: the rubric with its scale.
        reference: a response that gets the highest score.
        output_format: the format of the judge's answer.
        system_prompt: replaces the built-in system prompt.
        system: text before the system prompt.
    """
    reference = reference or None  # treat an empty reference as none
    task = system_prompt
    if task is None:
        task = rubric_instructions(rubric.scale, output_format, with_reference=reference is not None)
    sections = {
        "Instruction": instruction,
        "Reference Response": reference,
        "Score Rubric": rubric.text,
        "Response To Evaluate": response,
    }
    shown = {name: text for name, text in sections.items() if text is not None}
    fenced = fence(list(shown.values()), _LOOKALIKES)
    markers = fenced.markers
    parts = [f"{markers.heading(name)}\n\n{text}" for name, text in zip(shown, fenced.texts, strict=True)]
    parts += [f"--- {markers.tag}".rstrip(), "Please evaluate the response according to the score rubric above."]
    messages = [
        Message(role="system", content="\n\n".join(part for part in (system, task) if part)),
        Message(role="user", content=markers.notice + "\n\n".join(parts)),
    ]
    return Prompt(messages, fenced.suspects)


def rubric_instructions(scale: Scale, output_format: RubricFormat, *, with_reference: bool) -> str:
    """The system prompt; for the scale from 1 to 5, a reference and `feedback_score` it is the specification's."""
    feedback, score = TAGS[output_format]
    return (
        prompts.load("rubric_absolute")
        .replace("{reference}", f"a reference answer that gets a score of {scale.high}, " if with_reference else "")
        .replace("{scale}", scale.sentence)
        .replace("{feedback}", feedback)
        .replace("{score}", score)
        .replace("{low}", str(scale.low))
        .replace("{high}", str(scale.high))
    )
