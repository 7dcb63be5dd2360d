"""Tournament schedules: which players meet, who is shown first, and how a game is judged.

Schedules are pure functions of places, rounds and earlier meetings. Each player has a place from 0
in a tournament of a planned size, and takes it when it arrives. A plan says which places meet as
soon as both are taken. If some stay empty, `missing_pairs` says which further meetings the present
players need, so that each schedule keeps its form:

    all         nothing is missing: all pairs of present players have met
    circular    neighbours meet, without the empty places between them
    balanced    players with the fewest opponents meet, until each has met as many as there are
                rounds
    swiss       players without an opponent in the first round meet; the later rounds need its
                results (`swiss_round`)

A game compares two answers of a group in one order, by the judge that the settings name.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, product
from typing import Any, Literal, TypeAlias

from judgegym.judges import prompts
from judgegym.judges.arena import LABEL_VALUES, STRONG_WEIGHT, ArenaJudgeSettings, ArenaTaskJudge
from judgegym.judges.config.fields import setting
from judgegym.judges.core.delimiters import section_texts
from judgegym.judges.core.judgment import JudgeCall
from judgegym.judges.core.model_judge import Question, ask_question
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.pairwise import ChoiceTaskJudge, DecidedLetter
from judgegym.llm.client import ChatClient

Schedule = Literal["all", "swiss", "balanced", "circular"]
WITH_ROUNDS: tuple[Schedule, ...] = ("swiss", "balanced")
"""The schedules whose rounds `schedule_rounds` counts."""
GameOrders = Literal["both", "balanced"]
GameKind = Literal["arena_hard", "choice"]
_VALUES = {**LABEL_VALUES, "A": (1.0, False), "B": (0.0, False)}
"""By verdict: the points of the answer shown first, and whether the verdict is strong."""


class TournamentSettings(ArenaJudgeSettings):
    """Settings of tournaments: which answers of a group meet, in which orders."""

    tournament_game: GameKind = setting("arena_hard")
    """Decide each game by this judge. arena_hard: labels with ties, and strong ones in
    arena_hard_v0.1. choice: the letter of the better answer, without ties."""
    schedule: Schedule = setting("all")
    """Choose which answers of a group meet. all: each pair (8 answers in both orders: 56 calls).
    swiss: neighbours in the standing, in each round (24). balanced: each answer meets the same
    number of others (24). circular: each meets its neighbours on a circle (16)."""
    schedule_rounds: int | None = setting(None, ge=1)
    """Play this many rounds of swiss and balanced; in each round every answer meets one other. If
    unset, the logarithm of the group's size to base 2, rounded up, and twice as many if each pair
    has one game."""
    game_orders: GameOrders = setting("both")
    """Choose how often a pair meets. both: once in each order. balanced: once, so that each answer
    is shown first as often as second; this halves the calls of schedule all and circular."""

    def count_rounds(self, players: int) -> int:
        """Return the rounds of swiss and balanced.

        The number of games is the same for both `game_orders`, and no game is repeated.
        """
        once = self.game_orders == "balanced"
        rounds = self.schedule_rounds
        if not rounds:
            rounds = math.ceil(math.log2(max(players, 2)))
            if once:
                rounds *= 2
        # With an odd number, one player has a bye in each round.
        different = players - 1 + players % 2
        if once and self.schedule == "swiss":
            different *= 2
        return min(rounds, different)

    def built_in_prompt(self) -> str:
        """Return the system prompt of the judge of games."""
        if self.tournament_game == "choice":
            return prompts.load("choice")
        return super().built_in_prompt()


@dataclass(frozen=True, slots=True)
class GameResult:
    """Result of a game.

    Attributes:
        points: the points of the answer shown first: 1 for a win, 0.5 for a tie, 0 for a loss, or
            a decision model's probability that it is better; `None` without a verdict.
        weight: how many times the verdict counts.
        error: why there is no verdict.
        calls: every call that was made.
    """

    points: float | None
    weight: float = 1.0
    error: str | None = None
    calls: tuple[JudgeCall[object], ...] = ()


class PairJudge:
    """Judge of games that the settings name: Arena-Hard's, or the choice of a letter.

    A choice has no ties.
    """

    def __init__(self, settings: TournamentSettings, client: ChatClient) -> None:
        """Judge as the settings say."""
        self.client, self._settings = client, settings

    @cached_property
    def _game(self) -> ArenaTaskJudge | ChoiceTaskJudge:
        """The judge of two answers; made when it is used, because hosts without games have none."""
        if self._settings.tournament_game == "arena_hard":
            return ArenaTaskJudge(self._settings, self.client)
        return ChoiceTaskJudge(self._settings, self.client)

    async def play(self, task: JudgeTask, first: str, second: str, *, name: str) -> GameResult:
        """Compare two answers to a task's prompt.

        Args:
            task: the task of both answers; its responses do not count.
            first: the answer that is shown first, in both layouts of the prompt.
            second: the other one.
            name: name of the call, unique in its group; names of the game's further calls begin
                with it.
        """
        answers = await ask_question(
            self.client, self._settings, self._make_question(task, first, second, name)
        )
        call = answers.last
        points: float | None = None
        is_strong = False
        if call.value is not None:
            points, is_strong = _VALUES[call.value]
        if isinstance(call.value, DecidedLetter):
            points = call.value.probabilities["A"]
        weight = 1.0
        if is_strong:
            weight = float(STRONG_WEIGHT[self._settings.judge_protocol])
        return GameResult(points, weight, call.error, answers.calls)

    def count_suspects(self, task: JudgeTask, answer: str) -> int:
        """Count the suspects that a game shows of this answer and the task.

        They are role tokens, template tokens and lookalikes of markers.
        """
        return self._make_question(task, answer, "", "").prompt.suspects

    def _make_question(self, task: JudgeTask, first: str, second: str, name: str) -> Question[Any]:
        """Return the question of a game: for a letter, or for a label of Arena-Hard's judge."""
        shared = section_texts(task.rubric or "", task.reference, task.context)
        if isinstance(self._game, ArenaTaskJudge):
            return self._game.game(
                JudgeTask(task.prompt, (second,), baseline=first), "model_is_b", name, shared
            )
        return self._game.question(JudgeTask(task.prompt, (first, second)), name, shared)


Pair: TypeAlias = tuple[int, int]
"""Two players who meet, the lower number first."""
Meeting: TypeAlias = tuple[int, int]
"""A game of two players, in the order in which they are shown."""


def plan_pairs(schedule: Schedule, places: int, rounds: int) -> list[Pair]:
    """Return the pairs that meet as soon as both players are there.

    `rounds` is the number of rounds of `balanced`.
    """
    everyone = list(range(places))
    if schedule == "all" or places < 3:
        return list(combinations(everyone, 2))
    if schedule == "circular":
        return circle(everyone)
    if schedule == "swiss":
        return [(place, place + 1) for place in range(0, places - 1, 2)]
    return _round_robin(places, min(rounds, places - 1))


def count_games(settings: TournamentSettings, players: int) -> int:
    """Return the number of games, each of which is a call.

    Equal answers and failed games change it.
    """
    rounds = settings.count_rounds(players)
    pairs = len(plan_pairs(settings.schedule, players, rounds))
    if settings.schedule == "swiss" and players > 2:
        pairs = rounds * (players // 2)
    if settings.game_orders == "both":
        return 2 * pairs
    return pairs


def missing_pairs(
    schedule: Schedule, present: Sequence[int], met: Collection[Pair], rounds: int
) -> list[Pair]:
    """Return the pairs that still have to meet when no more players come.

    Args:
        schedule: the schedule.
        present: the occupied places, in ascending order.
        met: the pairs that have met.
        rounds: the number of opponents of each player, in `balanced`.
    """
    if len(present) < 2:
        return []
    if schedule == "all" or len(present) < 3:
        wanted = list(combinations(present, 2))
    elif schedule == "circular":
        wanted = circle(present)
    else:
        opponents = 1
        if schedule != "swiss":
            opponents = min(rounds, len(present) - 1)
        return _fill_up(present, met, opponents)
    return [pair for pair in wanted if pair not in met]


def circle(players: Sequence[int]) -> list[Pair]:
    """Return each player paired with the next; the last one meets the first."""
    return sorted(
        {
            make_pair(player, neighbour)
            for player, neighbour in zip(players, [*players[1:], players[0]], strict=True)
        }
    )


def swiss_round(standing: Sequence[int], met: Mapping[Pair, int]) -> list[Pair]:
    """Return a round in which neighbours in the standing meet.

    Players who have met before are avoided as far as possible.

    Args:
        standing: the players, best first; with an odd number the one with the most meetings has a
            bye.
        met: how often each pair has met.
    """
    meetings = Counter[int]()
    for (first, second), times in met.items():
        meetings.update({first: times, second: times})
    waiting = list(standing)
    if len(waiting) % 2:
        waiting.remove(max(reversed(waiting), key=lambda player: meetings[player]))
    pairs: list[Pair] = []
    while waiting:
        player = waiting.pop(0)
        # The first of the players that this one met least often.
        opponent = min(waiting, key=lambda candidate: met.get(make_pair(player, candidate), 0))
        waiting.remove(opponent)
        pairs.append(make_pair(player, opponent))
    return _exchange_repeats(pairs, standing, met)


def order_games(
    pairs: Iterable[Pair], orders: GameOrders, *, before: Iterable[Meeting] = ()
) -> list[Meeting]:
    """Return the games of pairs: in both orders, or in one that balances who is first.

    A pair that meets again in one order gets the order that it has had less often.

    Args:
        pairs: who meets.
        orders: whether a pair plays two games or one.
        before: the games so far.
    """
    if orders == "both":
        return [*chain.from_iterable(((low, high), (high, low)) for low, high in pairs)]
    played, firsts = Counter[Meeting](), Counter[int]()
    meetings: list[Meeting] = []

    def note(first: int, second: int) -> None:
        played[first, second] += 1
        firsts.update({first: 1, second: -1})

    for meeting in before:
        note(*meeting)
    for low, high in pairs:
        lead = (played[low, high] - played[high, low]) or (firsts[low] - firsts[high])
        low_is_first = lead < 0 or (lead == 0 and (low + high) % 2 == 1)
        meetings.append((low, high) if low_is_first else (high, low))
        note(*meetings[-1])
    return meetings


def components(players: Iterable[int], connected: Iterable[Pair]) -> list[list[int]]:
    """Return the groups of players that games connect, the largest first.

    Groups of equal size are ordered by their lowest number.
    """
    group = {player: [player] for player in players}
    for first, second in connected:
        if group[first] is not group[second]:
            merged = group[first] + group[second]
            group.update(dict.fromkeys(merged, merged))
    distinct = {id(members): sorted(members) for members in group.values()}
    return sorted(distinct.values(), key=lambda members: (-len(members), members))


def connecting_pairs(groups: Sequence[Sequence[int]], met: Mapping[Pair, int]) -> list[Pair]:
    """Return a pair for each group but the first that connects it with the first.

    It is the pair that has met the least often.

    Args:
        groups: the connected groups of players.
        met: how often each pair has met, with a result or without one.
    """
    new = Counter[int]()
    pairs: list[Pair] = []
    for group in groups[1:]:
        choices = product(group, groups[0])
        first, second = min(
            choices, key=lambda both: (met.get(make_pair(*both), 0), new[both[1]], both)
        )
        new[second] += 1
        pairs.append(make_pair(first, second))
    return pairs


def make_pair(first: int, second: int) -> Pair:
    """Return two players as a pair, the lower number first."""
    return (first, second) if first < second else (second, first)


def _round_robin(places: int, rounds: int) -> list[Pair]:
    """Return the first rounds of the circle method.

    Two consecutive rounds make one circle through all players.
    """
    seats = places + places % 2
    pairs: list[Pair] = []
    for number in range(rounds):
        turned = [seats - 1, *((number + seat) % (seats - 1) for seat in range(seats - 1))]
        both = (make_pair(turned[seat], turned[seats - 1 - seat]) for seat in range(seats // 2))
        pairs += [candidate for candidate in both if candidate[1] < places]
    return sorted(pairs)


def _fill_up(present: Sequence[int], met: Collection[Pair], opponents: int) -> list[Pair]:
    """Return further pairs of the players with the fewest opponents.

    Their number is then that of a plan for these players.
    """
    so_far = {both for both in met if {*both} <= {*present}}
    others = Counter(dict.fromkeys(present, 0))
    others.update(chain.from_iterable(so_far))
    added: list[Pair] = []
    while len(so_far) < opponents * (len(present) // 2) or min(others.values()) < opponents - 1:
        choices = (both for both in combinations(present, 2) if both not in so_far)
        chosen = min(
            choices,
            key=lambda both: (
                min(others[both[0]], others[both[1]]),
                others[both[0]] + others[both[1]],
            ),
        )
        so_far.add(chosen)
        others.update(chosen)
        added.append(chosen)
    return added


def _exchange_repeats(
    pairs: list[Pair], standing: Sequence[int], met: Mapping[Pair, int]
) -> list[Pair]:
    """Exchange the players of repeated pairs with the nearest pair, where that avoids a repeat."""
    rank = {player: number for number, player in enumerate(standing)}

    def cost(both: Sequence[Pair]) -> tuple[int, int]:
        return sum(met.get(meeting, 0) for meeting in both), sum(
            abs(rank[first] - rank[second]) for first, second in both
        )

    for number in range(len(pairs)):
        if not met.get(pairs[number]):
            continue
        left, right = pairs[number]
        exchanges = []
        for index, (third, fourth) in enumerate(pairs):
            if index == number:
                continue
            present_cost = cost((pairs[number], pairs[index]))[0]
            for new in (
                (make_pair(left, third), make_pair(right, fourth)),
                (make_pair(left, fourth), make_pair(right, third)),
            ):
                if cost(new)[0] < present_cost:
                    exchanges.append((cost(new), index, new))
        if exchanges:
            _, index, (pairs[number], pairs[index]) = min(exchanges)
    return pairs
