"""Tournament judge: pairwise games among a group's answers, and a score for each from all games.

The settings say which answers meet (`judgegym.judges.tournament.schedule`). A Bradley–Terry fit
with ties and a position term (`judgegym.statistics.bradley_terry`) turns the results into
strengths. A score is the probability to win against the group's mean, or against the anchor if
there is one.

A game begins as soon as both answers are there. At the end, missing games are played, unconnected
players are connected, and the strengths are fitted.

Guarantees: equal answers, and one equal to the anchor, are one player. A failed game costs only
that game, and a bounded number of further games connect the players that it has cut off. Names of
games depend only on the answers' numbers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from judgegym.judges.arena import ARENA_PROMPT, ArenaJudgeSettings, ArenaTaskJudge, select_baseline
from judgegym.judges.config.extras import require
from judgegym.judges.core.group import (
    GROUP_FIELDS,
    GroupInProgress,
    GroupJudge,
    GroupJudgment,
    response_number,
)
from judgegym.judges.core.judge import JudgeDefinition
from judgegym.judges.core.seeding import make_generator
from judgegym.judges.core.tasks import (
    JudgeTask,
    ResponseJudgment,
    ScoresInProgress,
    TaskError,
    explain_single_response,
)
from judgegym.judges.tournament.result import (
    PlayedGame,
    Players,
    comparable_players,
    connected_groups,
    decided_games,
    fit_strengths,
    group_judgment,
)
from judgegym.judges.tournament.schedule import (
    Meeting,
    Pair,
    PairJudge,
    TournamentSettings,
    connecting_pairs,
    make_pair,
    missing_pairs,
    order_games,
    plan_pairs,
    swiss_round,
)
from judgegym.llm.at_once import gather_results
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError

MOST_REPAIRS = 3
"""How many times games are played to connect players whose games have failed."""
MOST_GAMES_AT_ONCE = 256
"""Games of a group that run at once: all 4,032 prompts of 64 long answers would take a gigabyte."""


@dataclass(frozen=True, slots=True)
class _Player:
    """Distinct text, the number of the first answer with it, and its place.

    The anchor has number 0.
    """

    text: str
    number: int
    place: int


class TournamentInProgress:
    """Games of one group."""

    def __init__(
        self, task: JudgeTask, size: int, judge: PairJudge, settings: TournamentSettings
    ) -> None:
        """Start without an answer; the anchor is there from the start."""
        self._task, self._size, self._judge, self._settings = task, size, judge, settings
        places = size + (task.baseline is not None)
        length = len(task.prompt)
        key = f"{length}\x1f{task.prompt}\x1f{size}"
        self._free = make_generator(settings.seed, key, "places").sample(range(places), places)
        self._players: dict[str, _Player] = {}
        self._by_place: dict[int, _Player] = {}
        self._answers: list[int] = []
        self._games: list[asyncio.Task[PlayedGame]] = []
        self._at_once = asyncio.Semaphore(MOST_GAMES_AT_ONCE)
        self._times = Counter[Meeting]()
        self._plan = self._order(
            plan_pairs(settings.schedule, places, settings.count_rounds(places))
        )
        if task.baseline is not None:
            self._seat(task.baseline, 0)

    def add(self, answer: str) -> None:
        """Add an answer, and begin the planned games for which both players are there.

        Raises:
            ValueError: the group is complete already.
        """
        if len(self._answers) >= self._size:
            raise ValueError(f"a group of {self._size} answers cannot take one more")
        player = self._players.get(answer) or self._seat(
            answer, response_number(self._task, len(self._answers))
        )
        self._answers.append(player.place)

    async def close(self) -> GroupJudgment:
        """Play the missing games, and judge."""
        try:
            return await self._judge_group()
        # No games may be left running, also if the caller is cancelled.
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Stop all games."""
        for game in self._games:
            game.cancel()

    async def _judge_group(self) -> GroupJudgment:
        present, settings = sorted(self._by_place), self._settings
        missing = missing_pairs(
            settings.schedule, present, self._pair_counts, settings.count_rounds(len(present))
        )
        self._begin(self._order(missing))
        field = self._list_players()
        if settings.schedule == "swiss" and len(present) > 2:
            await self._swiss_rounds(field)
        await self._connect(field)
        games = await self._finish_games()
        # In a thread: the first fit of a process imports scikit-learn, and 64 players have
        # thousands of games.
        return await asyncio.to_thread(self._result, field, games)

    def _result(self, field: Players, games: Sequence[PlayedGame]) -> GroupJudgment:
        strengths = fit_strengths(comparable_players(field, games), games)
        return group_judgment(field, games, strengths, self._count_suspects)

    async def _swiss_rounds(self, field: Players) -> None:
        """Play the rounds after the first.

        Each round waits for the results of the earlier ones; without results the tournament stops.
        """
        for _ in range(1, self._settings.count_rounds(len(field.names))):
            games = await self._finish_games()
            if not decided_games(games):
                return
            strengths = await asyncio.to_thread(fit_strengths, list(field.names), games)
            standing = sorted(strengths, key=lambda place: (-strengths[place], place))
            self._begin(self._order(swiss_round(standing, self._pair_counts)))

    async def _connect(self, field: Players) -> None:
        """Play further games until those with a verdict connect everyone, at most a few times."""
        for attempt in range(MOST_REPAIRS):
            games = await self._finish_games()
            groups = connected_groups(field, games)
            if len(groups) < 2 or (attempt and not decided_games(games)) or _all_failed(games):
                return
            self._begin(self._order(connecting_pairs(groups, self._pair_counts)))

    def _seat(self, text: str, number: int) -> _Player:
        """Give a new player its place, and begin its games."""
        player = _Player(text, number, self._free[len(self._players)])
        self._players[text] = self._by_place[player.place] = player
        meetings = (meeting for meeting in self._plan if player.place in meeting)
        self._begin(meeting for meeting in meetings if self._by_place.keys() >= {*meeting})
        return player

    def _order(self, pairs: Iterable[Pair]) -> list[Meeting]:
        return order_games(pairs, self._settings.game_orders, before=self._times.elements())

    def _begin(self, meetings: Iterable[Meeting]) -> None:
        for first, second in meetings:
            first_player, second_player = self._by_place[first], self._by_place[second]
            again = self._times[first, second]
            self._times[first, second] += 1
            name = f"game_{first_player.number}_{second_player.number}"
            if again:
                name += f"_again_{again}"
            self._games.append(asyncio.create_task(self._play(first_player, second_player, name)))

    async def _play(self, first: _Player, second: _Player, name: str) -> PlayedGame:
        async with self._at_once:
            result = await self._judge.play(self._task, first.text, second.text, name=name)
        return PlayedGame(name, first.place, second.place, result)

    @property
    def _pair_counts(self) -> Counter[Pair]:
        return Counter(make_pair(*meeting) for meeting in self._times.elements())

    async def _finish_games(self) -> list[PlayedGame]:
        """Wait for all games and return them."""
        ended = await gather_results(self._games)
        number = {place: player.number for place, player in self._by_place.items()}
        return sorted(
            ended,
            key=lambda game: (number[game.first], number[game.second], len(game.name), game.name),
        )

    def _list_players(self) -> Players:
        players = sorted(self._by_place.values(), key=lambda player: player.number)
        names = {
            player.place: f"answer {player.number}" if player.number else "the anchor"
            for player in players
        }
        anchor = None
        if self._task.baseline is not None:
            anchor = players[0].place
        return Players(names, anchor, tuple(self._answers))

    def _count_suspects(self, place: int) -> int:
        return self._judge.count_suspects(self._task, self._by_place[place].text)


def _all_failed(games: Sequence[PlayedGame]) -> bool:
    """Return whether every call has failed, so that further games would fail too."""
    calls = chain.from_iterable(game.result.calls for game in games)
    return all(call.failed for call in calls)


class TournamentGroupJudge(GroupJudge):
    """Judge of groups by games between two of their answers."""

    def __init__(
        self,
        settings: TournamentSettings,
        client: ChatClient,
        rubric: str | None = None,
        *,
        games: PairJudge | None = None,
    ) -> None:
        """Let the judge of games that the settings name, or `games`, decide each game.

        Raises:
            SettingsError: the settings ask for self-critique, or the extra `statistics` is not
                installed.
        """
        super().__init__(settings, rubric)
        require("statistics")
        self.client, self._games, self._settings = (
            client,
            games or PairJudge(settings, client),
            settings,
        )

    async def judge(self, task: JudgeTask) -> GroupJudgment:
        """Judge all responses of a task."""
        group = self.start(task, len(task.responses))
        for response in task.responses:
            group.add(response)
        return await group.close()

    def start(self, task: JudgeTask, size: int) -> GroupInProgress:
        """Begin a group of at most `size` responses; those of the task do not count."""
        return TournamentInProgress(task, size, self._games, self._settings)


class ArenaOrTournament(ArenaTaskJudge):
    """Win rate over both orders against a baseline, or else a tournament of the responses.

    With a baseline, responses are judged one by one, as in the benchmark; the judge `tournament`
    adds the baseline as a player.
    """

    settings: TournamentSettings

    def __init__(
        self, settings: TournamentSettings, client: ChatClient, rubric: str | None = None
    ) -> None:
        """Judge as the settings say.

        Raises:
            SettingsError: single responses are gathered, and the settings allow no tournament.
        """
        super().__init__(settings, client)
        self._tournament: GroupJudge | str
        try:
            self._tournament = TournamentGroupJudge(settings, client)
        except SettingsError as error:
            if settings.gathers:
                raise
            self._tournament = str(error)

    def check(self, task: JudgeTask) -> None:
        """Check that there is a baseline, or a valid number of responses to compare."""
        super().check(task)
        if not self.compares(task):
            return
        if len(task.responses) < 2:
            raise TaskError(
                "baseline: expected a baseline, or several responses to compare with each other"
                + explain_single_response(task, self.settings.how_to_gather)
            )
        self._games().check(task)

    def compares(self, task: JudgeTask) -> bool:
        """Return whether responses are compared with each other: without a baseline."""
        return select_baseline(task) is None

    def min_responses(self, task: JudgeTask) -> int:
        """Return two."""
        return 2

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        """Score against the baseline, or against each other."""
        if self.compares(task):
            return await self._games().score(_arena_task(task))
        return await super().score(task)

    def begin(self, task: JudgeTask, size: int) -> ScoresInProgress:
        """Begin a tournament; games are played as responses arrive."""
        return self._games().begin(_arena_task(task), size)

    def _games(self) -> GroupJudge:
        """Return the judge of a tournament.

        Raises:
            TaskError: the settings allow no tournament.
        """
        if isinstance(self._tournament, str):
            raise TaskError(
                f"responses: without a baseline they play a tournament: {self._tournament}"
            )
        return self._tournament


def _arena_task(task: JudgeTask) -> JudgeTask:
    """Return the task reduced to what the Arena-Hard judge is shown."""
    return JudgeTask(
        task.prompt, task.responses, places=task.places, traces=task.traces, images=task.images
    )


JUDGE = JudgeDefinition(
    TournamentSettings,
    "games between pairs of several responses, many calls (--schedule)",
    TournamentGroupJudge,
    (),  # its games are those of arena_hard or choice
    GROUP_FIELDS,
    reads_rubric=True,
    most_together=TournamentGroupJudge.max_responses,  # 2,016 pairs of two games
)
ARENA_JUDGE = JudgeDefinition(
    ArenaJudgeSettings,
    "win rate against a baseline; without one, a tournament",
    ArenaOrTournament,
    (ARENA_PROMPT,),
    frozenset(("reference", "baseline")),
    most_together=TournamentGroupJudge.max_responses,
    has_baselines=True,
    group_settings=TournamentSettings,
    confidences=frozenset(("orders",)),
)
