"""A game: two answers of a group are compared in one order, by the judge that the settings name.

The settings of tournaments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from judgegym.judges import prompts
from judgegym.judges.arena import STRONG_WEIGHT, ArenaCase, ArenaCaseJudge, ArenaJudgeSettings
from judgegym.judges.config.fields import setting
from judgegym.judges.core.calls import ask
from judgegym.judges.core.delimiters import Prompt, SharedTexts
from judgegym.judges.core.group import GroupCase
from judgegym.judges.core.judgment import JudgeCall
from judgegym.judges.pairwise import choice_prompt
from judgegym.judges.parsing.labels import choice_form, choice_letter
from judgegym.llm.client import ChatClient

Schedule = Literal["all", "swiss", "balanced", "circular"]
WITH_ROUNDS: tuple[Schedule, ...] = ("swiss", "balanced")
"""The schedules whose rounds `schedule_rounds` counts."""
GameOrders = Literal["both", "balanced"]
GameKind = Literal["arena_hard", "choice"]


class TournamentSettings(ArenaJudgeSettings):
    """Which answers of a group meet, in which orders."""

    help_group: ClassVar[str] = "judge"

    tournament_game: GameKind = setting(
        "arena_hard",
        "Decide each game by this judge. arena_hard: labels with ties, and strong ones in arena_hard_v0.1. choice: the "
        "letter of the better answer, without ties.",
    )
    schedule: Schedule = setting(
        "all",
        "Let these answers of a group meet. all: each pair (8 answers in both orders: 56 calls). swiss: in each round "
        "those that stand next to each other (24). balanced: each answer the same number of others (24). circular: "
        "each its neighbours on a circle (16).",
    )
    schedule_rounds: int | None = setting(
        None,
        "Play this many rounds of swiss and balanced, in each of which every answer meets one other. If unset, the "
        "logarithm of the group's size to base 2, rounded up, and twice as many if each pair has one game.",
        ge=1,
    )
    game_orders: GameOrders = setting(
        "both",
        "Play each pair in both orders (both), or, for half of the calls with schedule all and circular, in one order, "
        "so that each answer is shown first as often as second (balanced).",
    )

    def rounds_of(self, players: int) -> int:
        """The rounds of swiss and balanced: as many games in either of `game_orders`, none of which is played twice."""
        once = self.game_orders == "balanced"
        rounds = self.schedule_rounds or math.ceil(math.log2(max(players, 2))) * (2 if once else 1)
        different = players - 1 + players % 2  # with an odd number, one has a bye in each
        return min(rounds, different * (2 if once and self.schedule == "swiss" else 1))

    def built_in_prompt(self) -> str:
        """The system prompt of the judge of games."""
        return prompts.load("choice") if self.tournament_game == "choice" else super().built_in_prompt()


@dataclass(frozen=True, slots=True)
class GameResult:
    """What came of a game.

    Attributes:
        points: of the answer that was shown first: 1 if it won, 0.5 for a tie, 0 if it lost; `None` without a verdict.
        weight: how many times the verdict counts.
        error: why there is no verdict.
        calls: every call that was made.
    """

    points: float | None
    weight: float = 1.0
    error: str | None = None
    calls: tuple[JudgeCall[object], ...] = ()


class PairJudge(Protocol):
    """Plays games."""

    @property
    def client(self) -> ChatClient:
        """The client of the judge model."""

    async def play(self, case: GroupCase, first: str, second: str, *, name: str) -> GameResult:
        """Compare two answers to the question of a case.

        Args:
            case: what both answers have in common; its own answers do not count.
            first: the answer that is shown first.
            second: the other one.
            name: of the call, unique in its group; further calls of the game begin with it.
        """

    def suspects(self, case: GroupCase, answer: str) -> int:
        """How many role tokens, template tokens and lookalikes of markers a game shows of this answer and the case."""


class ArenaPairJudge:
    """Arena-Hard's game, with the labels and weights of its protocol."""

    def __init__(self, client: ChatClient, settings: TournamentSettings) -> None:
        """Judge as the settings say."""
        self._judge = ArenaCaseJudge(client, settings)
        self._strong = float(STRONG_WEIGHT[settings.judge_protocol])

    @property
    def client(self) -> ChatClient:
        """The client of the judge model."""
        return self._judge.client

    async def play(self, case: GroupCase, first: str, second: str, *, name: str) -> GameResult:
        """Play the game; the first answer is assistant A's, and stands first in both layouts of the prompt."""
        game, calls, _ = await self._judge.play(_arena_case(case, first, second), "model_is_b", name=name)
        points = None if game.points is None else 1.0 - game.points
        return GameResult(points, self._strong if game.is_strong else 1.0, game.error, calls)

    def suspects(self, case: GroupCase, answer: str) -> int:
        """Count in the prompt of a game with an empty other answer."""
        return self._judge.prompt(_arena_case(case, "", answer), "model_is_b").suspects


class ChoicePairJudge:
    """The choice of the better one of two answers, by its letter: a game without ties."""

    def __init__(self, client: ChatClient, settings: TournamentSettings) -> None:
        """Judge as the settings say."""
        self._client = client
        self._system_prompt = settings.judge_system_prompt
        self._letter = choice_letter.given("AB")
        self._form = settings.form(choice_form("AB"))

    @property
    def client(self) -> ChatClient:
        """The client of the judge model."""
        return self._client

    async def play(self, case: GroupCase, first: str, second: str, *, name: str) -> GameResult:
        """Ask for the letter of the better answer."""
        prompt = self._prompt(case, first, second)
        call = await ask(self._client, prompt.messages, self._letter, name=name, form=self._form)
        points = None if call.value is None else float(call.value == "A")
        return GameResult(points, error=call.error, calls=(call,))

    def suspects(self, case: GroupCase, answer: str) -> int:
        """Count in the prompt of a game with an empty other answer."""
        return self._prompt(case, answer, "").suspects

    def _prompt(self, case: GroupCase, first: str, second: str) -> Prompt:
        return choice_prompt(case.question, (first, second), system_prompt=self._system_prompt, shared=_shared(case))


def pair_judge(settings: TournamentSettings, client: ChatClient) -> PairJudge:
    """The judge of games that the settings name."""
    kinds: Mapping[GameKind, type[ArenaPairJudge] | type[ChoicePairJudge]] = {
        "arena_hard": ArenaPairJudge,
        "choice": ChoicePairJudge,
    }
    return kinds[settings.tournament_game](client, settings)


def _arena_case(case: GroupCase, first: str, second: str) -> ArenaCase:
    return ArenaCase(case.question, answer=second, baseline=first, shared=_shared(case))


def _shared(case: GroupCase) -> SharedTexts:
    return SharedTexts(case.criteria, case.reference, case.context)
