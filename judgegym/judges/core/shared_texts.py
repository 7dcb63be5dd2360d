"""What the answers to a question have in common beside it, as sections of a prompt that compares two of them.

A prompt has only the sections of the texts that are given; without any it stays as it was published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judgegym.judges import prompts

CONTEXT, REFERENCE, CRITERIA = "Given Context", "Reference Answer", "Given Criteria"
"""Titles of the sections, in their order; of two words, because a single one between signs looks like a token."""
TITLES = (CONTEXT, REFERENCE, CRITERIA)


@dataclass(frozen=True, slots=True)
class SharedTexts:
    """Texts for all answers.

    Attributes:
        criteria: what makes an answer good; empty for the judge's general criteria.
        reference: an answer that deserves the best verdict.
        context: the text that the answers should be based on.
    """

    criteria: str = ""
    reference: str | None = None
    context: str | None = None

    @property
    def by_title(self) -> dict[str, str]:
        """Return the texts that are given, in the order of their sections."""
        texts = {CONTEXT: self.context, REFERENCE: self.reference, CRITERIA: self.criteria or None}
        return {title: text for title, text in texts.items() if text is not None}

    @property
    def instructions(self) -> str:
        """Return a paragraph that says what each of the sections means; empty without any."""
        meanings = dict(line.split(": ", 1) for line in prompts.load("shared_texts").splitlines())
        said = " ".join(meanings[title] for title in self.by_title)
        return f"{said}\n\n" if said else ""

    def sections(self, marker: Callable[[str], str], shown: Sequence[str]) -> list[str]:
        """The sections.

        Args:
            marker: makes a marker of a title.
            shown: the texts of `by_title` as the prompt shows them.
        """
        return [f"{marker(title)}\n{text}" for title, text in zip(self.by_title, shown, strict=True)]


NOTHING_SHARED = SharedTexts()
