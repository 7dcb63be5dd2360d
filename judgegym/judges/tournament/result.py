"""Judgments of a group from its games: strengths, scores, and who won against whom.

Guarantees: the fit uses all games with a verdict among the players that they connect with the
anchor's group, or with the largest group if there is no anchor; only those players have a score.
The anchor has no judgment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from judgegym.judges.core.group import GroupJudgment, Look, MemberDetail, OrderAgreement
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.tournament.schedule import GameResult, components, make_pair
from judgegym.statistics.bradley_terry import GameOutcome, fit


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """Game of two players, in the order in which they were shown."""

    name: str
    first: int
    second: int
    result: GameResult

    @property
    def players(self) -> tuple[int, int]:
        """Both, the lower number first."""
        return make_pair(self.first, self.second)

    def get_points(self, player: int) -> float:
        """Return the points of one player in a game with a verdict."""
        assert self.result.points is not None
        return self.result.points if player == self.first else 1.0 - self.result.points


@dataclass(frozen=True, slots=True)
class Players:
    """The players of a tournament.

    Attributes:
        names: the display name of each player, by its place.
        anchor: the place of the anchor.
        answers: for each answer of the group, the place of its player; equal answers share one.
    """

    names: Mapping[int, str]
    anchor: int | None
    answers: tuple[int, ...]


def decided_games(games: Sequence[PlayedGame]) -> list[PlayedGame]:
    """Return the games that have a verdict."""
    return [game for game in games if game.result.points is not None]


def connected_groups(field: Players, games: Sequence[PlayedGame]) -> list[list[int]]:
    """Return the groups of players that games with a verdict connect.

    The anchor's group comes first, otherwise the largest group.
    """
    groups = components(field.names, (game.players for game in decided_games(games)))
    return sorted(groups, key=lambda group: field.anchor not in group)


def comparable_players(field: Players, games: Sequence[PlayedGame]) -> list[int]:
    """Return the players that can be compared.

    They are connected with the anchor, or form the largest group if that has two players.

    A single player, whose answers are the whole group, gets the mean strength.
    """
    groups = connected_groups(field, games)
    if not groups or (field.anchor is None and len(groups) > 1 and len(groups[0]) == 1):
        return []
    return groups[0]


def fit_strengths(players: Sequence[int], games: Sequence[PlayedGame]) -> dict[int, float]:
    """Return the strengths of connected players from their games with a verdict.

    Their mean is 0.
    """
    number = {player: index for index, player in enumerate(players)}
    rated = [game for game in decided_games(games) if {game.first, game.second} <= number.keys()]
    results = (
        GameOutcome(
            number[game.first], number[game.second], game.get_points(game.first), game.result.weight
        )
        for game in rated
    )
    fitted = fit(len(players), list(results))
    return dict(zip(players, fitted.values, strict=True))


def group_judgment(
    field: Players,
    games: Sequence[PlayedGame],
    strengths: Mapping[int, float],
    suspects: Callable[[int], int],
) -> GroupJudgment:
    """Return the judgment of each answer; the first one has all calls.

    Args:
        field: the players.
        games: all games, in the order of their names.
        strengths: the strengths of connected players; the others have no score.
        suspects: number of suspect texts in each player's games.
    """
    games_by_player: dict[int, list[PlayedGame]] = {player: [] for player in field.names}
    for game in games:
        games_by_player[game.first].append(game)
        games_by_player[game.second].append(game)
    by_player = {
        player: _member_judgment(
            field, player, games_by_player[player], strengths, suspects=suspects(player)
        )
        for player in dict.fromkeys(field.answers)
    }
    members = [by_player[player] for player in field.answers]
    if members:
        calls = tuple(chain.from_iterable(game.result.calls for game in games))
        members[0] = replace(members[0], calls=calls)
    return GroupJudgment(tuple(members), _count_agreement(decided_games(games)))


def _member_judgment(
    field: Players,
    player: int,
    games: Sequence[PlayedGame],
    strengths: Mapping[int, float],
    *,
    suspects: int,
) -> Judgment[MemberDetail]:
    seen = decided_games(games)
    looks = tuple(
        Look(1 if game.first == player else 2, 2, game.get_points(player)) for game in seen
    )
    record = _format_record(looks)
    lines = [_describe_game(field, player, game) for game in games]
    if player not in strengths or len(field.answers) + (field.anchor is not None) < 2:
        reason = _explain_missing_score(field, games)
        calls = chain.from_iterable(game.result.calls for game in games)
        has_failed = any(call.failed for call in calls) or not games
        return Judgment(
            None,
            Status.JUDGE_FAILED if has_failed else Status.UNPARSABLE,
            explanation="\n".join([reason, *lines]),
            detail=MemberDetail(looks, None),
            suspects=suspects,
        )
    strength = strengths[player]
    against = 0.0
    if field.anchor is not None:
        against = strengths[field.anchor]
    summary = "Equal to all others: no game."
    if games:
        summary = f"{record}; strength {strength:+.2f}"
    return Judgment(
        1.0 / (1.0 + math.exp(against - strength)),
        Status.OK,
        record,
        "\n".join([summary, *lines]),
        detail=MemberDetail(looks, strength),
        suspects=suspects,
    )


def _format_record(looks: Sequence[Look]) -> str:
    points = [look.points for look in looks]
    won, lost = sum(point > 0.5 for point in points), sum(point < 0.5 for point in points)
    tied = len(points) - won - lost
    return f"{won} won, {tied} tied, {lost} lost"


def _describe_game(field: Players, player: int, game: PlayedGame) -> str:
    """Describe one game from a player's side."""
    shown, opponent = ("first", game.second) if player == game.first else ("second", game.first)
    if game.result.points is None:
        return (
            f"{game.name}, shown {shown}, against {field.names[opponent]}: no verdict: "
            f"{game.result.error}"
        )
    points = game.get_points(player)
    outcome = "tied with"
    if points != 0.5:
        outcome = "won against" if points > 0.5 else "lost to"
    strong = ""
    if game.result.weight != 1.0:
        strong = f" (counts {game.result.weight:g} times)"
    return f"{game.name}, shown {shown}: {outcome} {field.names[opponent]}{strong}"


def _explain_missing_score(field: Players, games: Sequence[PlayedGame]) -> str:
    if len(field.answers) + (field.anchor is not None) < 2:
        return "There is no other answer to compare it with."
    if not decided_games(games):
        return "None of its games has a verdict."
    side = "the anchor" if field.anchor is not None else "most of the other answers"
    return f"No games with a verdict connect it with {side}."


def _count_agreement(games: Sequence[PlayedGame]) -> OrderAgreement:
    """Count the pairs with verdicts in both orders, and those with the same winner.

    If a game is repeated, the last one counts.
    """
    by_order = {(game.first, game.second): game.get_points(game.first) for game in games}
    both_orders = [pair for pair in by_order if pair[::-1] in by_order]
    both = [
        (by_order[first, second], 1.0 - by_order[second, first])
        for first, second in both_orders
        if first < second
    ]
    agreed = sum(
        _find_winner(first_points) == _find_winner(second_points)
        for first_points, second_points in both
    )
    return OrderAgreement(agreed, len(both))


def _find_winner(points: float) -> int:
    """Return 1 if the points are more than half, -1 if they are less, 0 for a tie."""
    return (points > 0.5) - (points < 0.5)
