"""Games of one row: a tournament with the baseline, or each candidate against the baseline.

Guarantees: an answer in the wrong format loses to every valid one and ties with another invalid
one, without a judge call. A game without a verdict costs only that game. The pairings and orders
depend only on the seed, the row and the names, even if an answer is still missing, so a resumed run
plays exactly the missing games. Therefore a round of a Swiss tournament waits for all results of
the rounds before it; a row that lacks one plays the later rounds when the run is resumed.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from judgegym.eval_environments.arena.environment import BASELINE, ArenaHardTask
from judgegym.eval_environments.arena.ratings import CandidateAnswer, RowGame
from judgegym.judges.arena import STRONG_WEIGHT, ArenaDetail, ArenaProtocol
from judgegym.judges.core.judge import Judge
from judgegym.judges.core.judgment import JudgeCall, Judgment
from judgegym.judges.core.seeding import derive_seed
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.tournament.schedule import (
    Meeting,
    Pair,
    PairJudge,
    TournamentSettings,
    count_games,
    make_pair,
    order_games,
    plan_pairs,
    swiss_round,
)
from judgegym.llm.at_once import gather_results
from judgegym.llm.ledger import component
from judgegym.statistics.bradley_terry import GameOutcome, fit

_BOTH_WRONG = 0.5


@dataclass(frozen=True, slots=True)
class MatchResult:
    """Games, the judge calls for them, and the number of suspects in their texts."""

    games: tuple[RowGame, ...] = ()
    calls: tuple[JudgeCall[object], ...] = ()
    suspects: int = 0

    @property
    def has_result(self) -> bool:
        """Whether there are games, all with a result."""
        return bool(self.games) and all(game.points is not None for game in self.games)


class AgainstBaseline:
    """Each candidate plays both games against the baseline, as in its own evaluation."""

    def __init__(self, judge: Judge[ArenaDetail], protocol: ArenaProtocol) -> None:
        """Let `judge` decide the games."""
        self._judge = judge
        self._strong = float(STRONG_WEIGHT[protocol])

    def count_row_games(self, candidates: int) -> int:
        """Return the number of games of a row with this many candidates: two for each."""
        return 2 * candidates

    async def play(self, task: ArenaHardTask, players: Sequence[CandidateAnswer]) -> MatchResult:
        """Play all games at once; candidates without an answer play none."""
        return _merge_results(
            await gather_results(self._play_both_games(task, player) for player in players)
        )

    async def _play_both_games(self, task: ArenaHardTask, player: CandidateAnswer) -> MatchResult:
        if player.answer is None:
            return MatchResult()
        if player.is_wrong:
            baseline = CandidateAnswer(BASELINE, task.baseline)
            return MatchResult(
                (_make_invalid_game(player, baseline), _make_invalid_game(baseline, player))
            )
        with component(_name_match(player.candidate, BASELINE)):
            judgment = await self._judge.judge(task.make_judge_task(player.answer))
        return MatchResult(
            self._convert_games(player, judgment),
            _rename_calls(judgment.calls, player.candidate, BASELINE),
            judgment.suspects,
        )

    def _convert_games(
        self, player: CandidateAnswer, judgment: Judgment[ArenaDetail]
    ) -> tuple[RowGame, ...]:
        assert judgment.detail is not None  # also without a verdict
        games = []
        for game in judgment.detail.games:
            first = player.candidate
            second = BASELINE
            points = game.points
            if game.order != "model_is_a":
                first, second = second, first
                points = None if points is None else 1.0 - points
            games.append(
                RowGame(
                    first,
                    second,
                    points,
                    weight=self._strong if game.is_strong else 1.0,
                    text=game.text,
                    error=game.error,
                )
            )
        return tuple(games)


class Tournament:
    """The candidates and the baseline play each other by the settings of a tournament."""

    def __init__(self, judge: PairJudge, settings: TournamentSettings) -> None:
        """Let `judge` decide the games."""
        self._judge = judge
        self._settings = settings

    def count_row_games(self, candidates: int) -> int:
        """Return the maximum number of games of a row with this many candidates."""
        return count_games(self._settings, candidates + 1)

    async def play(self, task: ArenaHardTask, players: Sequence[CandidateAnswer]) -> MatchResult:
        """Play the games of each round at once; candidates without an answer play none."""
        settings, seed = self._settings, self._settings.seed
        everyone = [*players, CandidateAnswer(BASELINE, task.baseline)]
        ordered = sorted(
            everyone, key=lambda player: derive_seed(seed, task.uid, f"place of {player.candidate}")
        )
        meetings: list[Meeting] = []
        played: list[MatchResult] = []

        async def play_round(pairs: Iterable[Pair]) -> None:
            new_meetings = order_games(pairs, settings.game_orders, before=meetings)
            games = await gather_results(
                self._play_game(task, ordered[first], ordered[second])
                for first, second in new_meetings
            )
            meetings.extend(new_meetings)
            played.extend(games)

        await play_round(
            plan_pairs(settings.schedule, len(ordered), settings.count_rounds(len(ordered)))
        )
        if settings.schedule == "swiss" and len(ordered) > 2:
            for _ in range(1, settings.count_rounds(len(ordered))):
                if not all(match.has_result for match in played):
                    break
                results = list(zip(meetings, played, strict=True))
                ranking = await asyncio.to_thread(_rank_players, len(ordered), results)
                await play_round(
                    swiss_round(ranking, Counter(make_pair(*meeting) for meeting in meetings))
                )
        return self._count_suspects(_merge_results(played), task, everyone)

    def _count_suspects(
        self, played: MatchResult, task: ArenaHardTask, players: Sequence[CandidateAnswer]
    ) -> MatchResult:
        """Count the suspects of each answer that the judge was shown; count each answer once.

        The question's suspects count with each answer.
        """
        shown: set[str] = set()
        for game in played.games:
            if game.decided == "judge":
                shown |= {game.first, game.second}
        answers = (player.answer for player in players if player.candidate in shown)
        texts = (answer for answer in answers if answer is not None)
        shared = JudgeTask(task.question, ())
        return dataclasses.replace(
            played, suspects=sum(self._judge.count_suspects(shared, text) for text in texts)
        )

    async def _play_game(
        self, task: ArenaHardTask, first: CandidateAnswer, second: CandidateAnswer
    ) -> MatchResult:
        if first.answer is None or second.answer is None:
            return MatchResult()
        if first.is_wrong or second.is_wrong:
            return MatchResult((_make_invalid_game(first, second),))
        with component(_name_match(first.candidate, second.candidate)):
            result = await self._judge.play(
                JudgeTask(task.question, ()), first.answer, second.answer, name="game"
            )
        text = next((call.text for call in reversed(result.calls) if call.text), "")
        game = RowGame(
            first.candidate,
            second.candidate,
            result.points,
            result.weight,
            text=text,
            error=result.error,
        )
        return MatchResult((game,), _rename_calls(result.calls, first.candidate, second.candidate))


def _rank_players(players: int, played: Sequence[tuple[Meeting, MatchResult]]) -> list[int]:
    """Return the players of a row, best first."""
    results: list[GameOutcome] = []
    for (first, second), match in played:
        for game in match.games:
            if game.points is not None:
                results.append(GameOutcome(first, second, game.points, game.weight))
    strengths = fit(players, results).values
    return sorted(range(players), key=lambda player: (-strengths[player], player))


def _make_invalid_game(first: CandidateAnswer, second: CandidateAnswer) -> RowGame:
    """Return a game that is decided by the format of an answer."""
    points = float(second.is_wrong)
    if first.is_wrong and second.is_wrong:
        points = _BOTH_WRONG
    return RowGame(first.candidate, second.candidate, points, decided="format")


def _merge_results(parts: Iterable[MatchResult]) -> MatchResult:
    parts = list(parts)
    return MatchResult(
        tuple(chain.from_iterable(part.games for part in parts)),
        tuple(chain.from_iterable(part.calls for part in parts)),
        sum(part.suspects for part in parts),
    )


def _rename_calls(
    calls: Iterable[JudgeCall[object]], first: str, second: str
) -> tuple[JudgeCall[object], ...]:
    match = _name_match(first, second)
    return tuple(dataclasses.replace(call, name=f"{match}_{call.name}") for call in calls)


def _name_match(first: str, second: str) -> str:
    return f"{first}_vs_{second}"
