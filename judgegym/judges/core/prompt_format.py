"""What the offline stand-in needs to know of a judge: the sections of its prompt, and a plausible reply to them.

A judge declares one `PromptFormat` beside its prompt. The stand-in finds the sections by the markers of
`judgegym.judges.core.delimiters`, computes the merit of each judged text from its words, and calls `reply`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random

from judgegym.judges.parsing.json_objects import last_first
from judgegym.llm.wire import JSON

PREVIOUS_EVALUATION = "YOUR PREVIOUS EVALUATION"
"""The section that turns a prompt into a request for a critique; the reply then stands after the critique."""


def object_fields(reply: str) -> Mapping[str, JSON] | None:
    """The fields of the last JSON object of a reply."""
    last = next(iter(last_first(reply)), None)
    return None if last is None else last.fields


def bracketed_fields(reply: str) -> Mapping[str, JSON] | None:
    """The fields of a reply that ends with its verdict in double brackets."""
    explanation, _, verdict = reply.rpartition("[[")
    return {"explanation": explanation.strip(), "verdict": verdict.strip().removesuffix("]]")} if explanation else None


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """A judge's prompt as the stand-in has parsed it.

    Attributes:
        instructions: the system prompt, and the part of the user message before the first section.
        sections: the texts of the sections by title; optional ones only if the prompt has them.
        merits: how good each judged section is, between 0 and 1, with small differences between votes and critiques.
        rng: seeded with the prompt without the text under judgment, so that a better text never gets a worse verdict.
    """

    instructions: str
    sections: Mapping[str, str]
    merits: Mapping[str, float]
    rng: Random

    @property
    def merit(self) -> float:
        """The merit of the first judged section, for judges of one text."""
        return next(iter(self.merits.values()))


@dataclass(frozen=True, slots=True)
class PromptFormat:
    """How to recognise a judge's prompt, and a plausible reply to it.

    Attributes:
        sections: the titles that every prompt has; a prompt with all of them is this judge's.
        judged: the sections under judgment; a title of `with_id` stands for all sections of that kind.
        reply: makes a reply in the format that the prompt asks for, without thinking tags.
        optional: further titles that a prompt may have.
        with_id: titles that an id of small letters follows, of each of which every prompt has one or more; in
            `ShownPrompt` the id belongs to the title.
        question: the section that the judged text answers; the merit counts words that both share.
        references: sections that the judged text is compared with; the first one that the prompt has counts.
        ending: the text of the prompt after its last section.
        fields: the fields of a reply, for requests that want it as an object; by default those of the JSON object at
            its end. `None` if it has none.

    Raises:
        ValueError: a judged section is not among the titles, or no section is judged.
    """

    sections: tuple[str, ...]
    judged: tuple[str, ...]
    reply: Callable[[ShownPrompt], str]
    optional: tuple[str, ...] = ()
    with_id: tuple[str, ...] = ()
    question: str = ""
    references: tuple[str, ...] = ()
    ending: str = ""
    fields: Callable[[str], Mapping[str, JSON] | None] = object_fields

    def __post_init__(self) -> None:
        """Check that something can be judged."""
        if isinstance(self.sections, str) or isinstance(self.judged, str):
            raise ValueError("'sections' and 'judged' are tuples of titles, not one string")
        always = (*self.sections, *self.with_id)
        unknown = [title for title in self.judged if title not in (*always, *self.optional)]
        if unknown or not set(self.judged) & set(always):
            raise ValueError(f"'judged' must name at least one of the sections {always}, not {self.judged}")

    def judged_of(self, titles: Iterable[str]) -> list[str]:
        """Which of a prompt's titles are under judgment, in the order of `judged`, those with an id in their own."""
        stems = [(title, title.rpartition(" ")[0]) for title in titles]
        return [
            title
            for judged in self.judged
            for title, stem in stems
            if judged == (stem if judged in self.with_id else title)
        ]
