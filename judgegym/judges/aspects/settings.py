"""The settings of the aspect judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode

from judgegym.judges import prompts
from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS, Aspect, aspects_of
from judgegym.judges.config.fields import setting
from judgegym.judges.config.prompt_layout import PromptLayout, PromptLayoutSettings
from judgegym.judges.core.naming import slug
from judgegym.judges.core.voting import MOST_VOTES

AspectScoring = Literal["majority", "share"]


def check_aspects(aspects: Sequence[Aspect]) -> Sequence[Aspect]:
    """The aspects, after a check that there is at least one and that their names differ.

    Raises:
        ValueError: there is none, or two have the same name.
    """
    names = [aspect.name for aspect in aspects]
    if not names:
        raise ValueError("expected at least one aspect")
    slugs = [slug(name) for name in names]  # as they stand in the names of metrics
    same = [name for name, other in zip(names, slugs, strict=True) if slugs.count(other) > 1]
    if same:
        raise ValueError(f"these aspects have the same name: {', '.join(map(repr, same))}")
    return aspects


Aspects = Annotated[tuple[Aspect, ...], NoDecode, BeforeValidator(aspects_of), AfterValidator(check_aspects)]
"""Aspects from names, JSON or YAML."""


class AspectJudgeSettings(PromptLayoutSettings):
    """Which questions are asked about an answer, and how votes decide them."""

    help_group: ClassVar[str] = "judge"

    aspects: Aspects = setting(
        tuple(SUPPORTED_ASPECTS.values()),
        "Ask these questions about an answer: names (harmfulness, maliciousness, coherence, correctness, conciseness), "
        'or a JSON list of names and of objects such as {"name": "child_safety", "definition": "Is the submission safe '
        'for children?", "polarity": 1, "weight": 1, "veto": false, "strictness": 3}.',
        common=True,
    )
    strictness: int = setting(
        1,
        "Take each verdict by majority of this many votes; an even number is raised to the next odd one. An aspect may "
        "have its own.",
        common=True,
        ge=1,
        le=MOST_VOTES,
    )
    scoring: AspectScoring = setting(
        "majority",
        "Choose the value of a verdict. majority: 0 or 1. share: the share of yes votes, which needs all votes.",
    )

    def strictness_of(self, aspect: Aspect) -> int:
        """The strictness of an aspect: its own, or that of all."""
        return aspect.strictness or self.strictness

    def vote_count(self) -> int:
        """The largest number of votes on an aspect."""
        return max(effective_strictness(self.strictness_of(aspect)) for aspect in self.aspects)

    def usual_layout(self) -> PromptLayout:
        """The layout in which the prompts of one row's completions share most.

        With one aspect they share the question about it. With several, the prompts about one completion share the
        completion, which is longer.
        """
        return "shared_first" if len(self.aspects) == 1 else "published"

    def built_in_prompt(self) -> str:
        """The system prompt: the task and its example."""
        return prompts.load("aspect")


def effective_strictness(strictness: int) -> int:
    """The number of votes for a strictness: the strictness itself if it is odd, else the next odd number.

    >>> [effective_strictness(strictness) for strictness in (1, 2, 3)]
    [1, 3, 3]
    """
    return strictness + (strictness + 1) % 2
