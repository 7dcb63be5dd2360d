"""How the offline stand-in plays a judge: which sections its prompt has, and what a plausible reply to them is.

A judge declares one `PromptFormat` beside its prompt, and no more than that. The stand-in finds the sections behind
the markers of `judges.core.delimiters`, weighs the text under judgment by its words, and calls `reply`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

PREVIOUS_EVALUATION = "YOUR PREVIOUS EVALUATION"
"""The section that makes a prompt a request to critique an evaluation; the reply follows the critique."""


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """A judge's prompt as the stand-in has read it.

    Attributes:
        instructions: the system prompt, and what the user message says ahead of the first section.
        sections: their texts by title; optional ones only if they are there.
        merits: how good each judged section is, between 0 and 1; votes and critiques move it a little.
        rng: seeded with all that is shown but the text under judgment, so that a better text gets no worse a verdict.
    """

    instructions: str
    sections: Mapping[str, str]
    merits: Mapping[str, float]
    rng: Random

    @property
    def merit(self) -> float:
        """The merit of the first judged section: the only one, where one text is judged."""
        return next(iter(self.merits.values()))


@dataclass(frozen=True, slots=True)
class PromptFormat:
    """What identifies a judge's prompt, and how the judge might reply.

    Attributes:
        sections: the titles that each prompt has; a prompt that shows all of them is this judge's.
        judged: the sections under judgment.
        reply: a reply in the form that the prompt asks for, without thinking tags.
        optional: further titles that a prompt may have.
        question: the section that the judged text answers; its words count.
        references: sections that the judged text is compared with, in order of preference; the first one counts.
        ending: what the prompt says behind its last section.

    Raises:
        ValueError: a judged section is not among the titles, or there is none.
    """

    sections: tuple[str, ...]
    judged: tuple[str, ...]
    reply: Callable[[ShownPrompt], str]
    optional: tuple[str, ...] = ()
    question: str = ""
    references: tuple[str, ...] = ()
    ending: str = ""

    def __post_init__(self) -> None:
        """Check that something can be judged."""
        if isinstance(self.sections, str) or isinstance(self.judged, str):
            raise ValueError("'sections' and 'judged' are tuples of titles, not one string")
        unknown = [title for title in self.judged if title not in (*self.sections, *self.optional)]
        if unknown or not set(self.judged) & set(self.sections):
            raise ValueError(f"'judged' must name at least one of the sections {self.sections}, not {self.judged}")
