"""The settings of a judge from a prompt file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, model_validator
from typing_extensions import Self

from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.calls import MAX_VOTES
from judgegym.judges.prompt_files.file import PromptFile, load_prompt_file
from judgegym.judges.prompt_files.lines import PlaceholderName, find_placeholder
from judgegym.llm.errors import SettingsError


def _load_from_path(value: object) -> object:
    """Load the prompt file at a path; return any other value unchanged."""
    if not isinstance(value, str | Path):
        return value
    return load_prompt_file(parse_path(value))


def parse_path(name: str | Path) -> Path:
    """Return the path of a prompt file, which may be written as `@PATH`."""
    return Path(str(name).removeprefix("@")).expanduser()


class PromptJudgeSettings(JudgeSettings):
    """How a response is judged by a prompt file."""

    judge_prompt: Annotated[PromptFile | None, BeforeValidator(_load_from_path)] = setting(
        None, common=True
    )
    """With the judge prompt: read the prompt, its scale and the position of the verdict from this
    YAML file, as --judge=FILE.yaml does."""
    samples_per_item: int = setting(1, ge=1, le=MAX_VOTES)
    """Ask for this many independent judgments of each response, one call each."""
    samples_pooling: Literal["mean", "median"] = setting("mean")
    """Pool the judgments of one response into their mean or their median."""
    weighting: Literal["none", "logprobs"] = setting("none")
    """Choose how a score is read. none: from the text. logprobs: as the expected score over the
    scale's tokens; the endpoint must return top_logprobs."""

    @property
    def prompt_file(self) -> PromptFile:
        """The prompt file.

        Raises:
            SettingsError: there is none.
        """
        if self.judge_prompt is None:
            raise SettingsError(
                "judge_prompt: the judge prompt needs a prompt file; expected --judge=FILE.yaml"
            )
        return self.judge_prompt

    @property
    def shown_names(self) -> frozenset[PlaceholderName]:
        """The placeholders that the prompt shows."""
        return frozenset(() if self.judge_prompt is None else self.judge_prompt.template.names)

    @model_validator(mode="after")
    def _has_plain_system_prompt(self) -> Self:
        placeholder = find_placeholder(self.judge_system_prompt or "")
        if self.judge_prompt is not None and placeholder is not None:
            raise ValueError(
                f"judge_system_prompt: {placeholder} in a system message is not delimited; the "
                "prompt shows texts"
            )
        return self

    @model_validator(mode="after")
    def _weights_digits(self) -> Self:
        if self.judge_prompt is None or self.weighting != "logprobs":
            return self
        scale = self.judge_prompt.labels.scale
        if scale is None or scale.low < 0 or scale.high > 9:
            raise ValueError("weighting: logprobs needs a scale of whole numbers of one digit")
        return self

    def vote_count(self) -> int:
        """Return the number of judgments of each response."""
        return self.samples_per_item

    def built_in_prompt(self) -> str:
        """Return the prompt file's system message and prompt."""
        file = self.judge_prompt
        if file is None:
            return ""
        return "\n\n".join(filter(None, (file.system, file.prompt)))
