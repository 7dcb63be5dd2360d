"""A tournament over a real endpoint: every answer gets its own score, whatever fails."""

import re
from collections.abc import Callable
from typing import Any

from judges.core.group import GroupCase
from judges.tournament.judge import tournament_judge
from judges.tournament.settings import TournamentSettings
from tests.scripted import ScriptedEndpoint

Connect = Callable[..., Any]

_SHOWN = re.compile(r"<\|The Start of Assistant [AB]'s Answer[^|]*\|>\n(.*?)\n<\|The End", re.DOTALL)


def qualities(request: dict[str, Any]) -> tuple[int, int]:
    """The numbers that the two shown answers hold, A's first."""
    one, other = (int(re.findall(r"\d+", text)[-1]) for text in _SHOWN.findall(request["messages"][1]["content"]))
    return one, other


def by_number(request: dict[str, Any], number: int) -> str:
    """A judge for whom the higher number is the better answer."""
    one, other = qualities(request)
    return "[[A>B]]" if one > other else "[[B>A]]" if other > one else "[[A=B]]"


def group(*numbers: int, anchor: int | None = None) -> GroupCase:
    texts = tuple(f"quality {number}" for number in numbers)
    return GroupCase("How good?", texts, anchor=None if anchor is None else f"quality {anchor}")


async def test_scores_follow_the_judge_and_belong_to_their_answers(connect: Connect) -> None:
    async with ScriptedEndpoint(by_number) as endpoint:
        result = await tournament_judge(TournamentSettings(), connect(endpoint)).judge(group(3, 1, 4, 2))
    scores = [member.score for member in result.members]
    assert [sorted(scores).index(score) + 1 for score in scores] == [3, 1, 4, 2]
    assert all(0.0 < score < 1.0 for score in scores)
    assert len(endpoint.requests) == 12
    assert (result.orders.agreed, result.orders.pairs) == (6, 6)
    assert [len(member.calls) for member in result.members] == [12, 0, 0, 0]
    assert result.members[2].label == "6 won, 0 tied, 0 lost"
