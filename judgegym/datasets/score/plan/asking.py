"""A judge that asks nobody: the scorer of a run builds its prompts, and a client counts them instead of sending them.

Guarantee: the prompts are those that the run sends, since the run's own judges build them. Where a later prompt shows
what the judge has said before (self-critique), that is a few words here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from judgegym.datasets.rows.unit import ScoreTask
from judgegym.datasets.score.plan.verdicts import verdict_of
from judgegym.judges.scorers.items import Item
from judgegym.judges.scorers.of_settings import scorer_of
from judgegym.judges.scorers.scorer import Scorer, score_item
from judgegym.judges.scorers.settings import ScorerSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.replicas import Endpoint
from judgegym.llm.tokens import count_tokens
from judgegym.llm.types import ChatResponse, ChatSettings
from judgegym.llm.wire import JSON, Choice, Message

_TEXTS_KEPT = 256
_NOWHERE = "http://127.0.0.1:9/v1"
_RESPONSE = "\u203b"
"""Stands for a response in prompts, where it is counted; a text of the data that has it makes the most too many."""


@dataclass(frozen=True, slots=True)
class AskedInAll:
    """What would be sent.

    Attributes:
        calls: requests.
        prompt_tokens: of all prompts.
        shown_answers: how many answers of the judge the prompts would show it again, of which `prompt_tokens` has a
            few words each.
        shown_responses: how often the prompts would show a response that nobody has given yet; the same.
    """

    calls: int = 0
    prompt_tokens: int = 0
    shown_answers: int = 0
    shown_responses: int = 0


class CountingClient(ChatClient):
    """Counts what it is asked, and answers with a verdict.

    Attributes:
        asked: since the beginning.
    """

    def __init__(self, settings: ScorerSettings, *, disagrees: bool = False) -> None:
        """Count for a judge.

        Args:
            settings: the judge.
            disagrees: votes differ, and each round of self-critique revises the verdict: the most calls. Otherwise all
                votes are equal, and verdicts stay: the fewest.
        """
        endpoint = Endpoint(_NOWHERE, settings.judge_model_name)
        super().__init__(ChatSettings((endpoint,), settings.judge_temperature, settings.judge_max_tokens))
        self._judge, self._disagrees = settings, disagrees
        self.asked = AskedInAll()

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        n: int = 1,
        temperature: float | None | Literal["default"] = "default",
        max_tokens: int | Literal["default"] = "default",
        vote: int = 0,
        seed: int | None = None,
        extra: Mapping[str, JSON] | None = None,
        keep: Callable[[Choice], bool] | None = None,
        verdict_at: Callable[[Choice], tuple[int, int] | None] | None = None,
        fresh: bool = False,
        singly: bool = False,
        unkeyed: Mapping[str, JSON] | None = None,
        name: str = "",
    ) -> ChatResponse:
        """Count a call."""
        is_critique = name.startswith("critique_")
        tokens = sum(_tokens(message["content"]) for message in messages)
        of_votes = self._judge.vote_count() if self._judge.judge == "aspect" else 1
        before = self.asked
        self.asked = AskedInAll(
            before.calls + 1,
            before.prompt_tokens + tokens,
            before.shown_answers + of_votes * is_critique,
            before.shown_responses + sum(message["content"].count(_RESPONSE) for message in messages),
        )
        differs = self._disagrees and vote % 2 == 1 and (is_critique or self._judge.judge == "aspect")
        return ChatResponse((Choice(verdict_of(self._judge, messages, other=differs)),) * n)


class CountingJudge:
    """The judge of a run, whose questions are counted."""

    def __init__(self, settings: ScorerSettings, *, disagrees: bool = False) -> None:
        """Count for a judge; see `CountingClient`.

        Raises:
            SettingsError: the judge's settings are wrong.
        """
        # Probabilities are asked for in a field of the request, and change nothing of calls and prompts.
        settings = settings.model_copy(update={"weighting": "none"})
        self.client = CountingClient(settings, disagrees=disagrees)
        self.scorer: Scorer = scorer_of(settings, self.client)

    async def asked(self, item: Item) -> AskedInAll:
        """What would be sent for a checked item."""
        self.client.asked = AskedInAll()
        await score_item(self.scorer, item)
        return replace(self.client.asked)


def with_responses(unit: ScoreTask) -> Item:
    """What a unit's judge is asked about; in place of responses that a policy will give, different short ones."""
    if unit.to_sample is None:
        return unit.item
    return replace(unit.item, responses=tuple(f"{_RESPONSE}{number}" for number in range(unit.to_sample.count)))


@lru_cache(maxsize=_TEXTS_KEPT)
def _tokens(text: str) -> int:
    """The tokens of a text; of one that many prompts have, such as the system prompt, counted once."""
    return count_tokens(text)
