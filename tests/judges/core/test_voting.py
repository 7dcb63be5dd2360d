"""Who is asked, how often, and with which number."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from judgegym.judges.core.calls import Vote, collect_votes, vote
from judgegym.judges.core.judgment import CallRun, JudgeCall
from tests.scripted import Meeting


def call(number: int, value: int | None) -> JudgeCall[int]:
    return JudgeCall(f"vote {number}", "", None, value, None, CallRun())


class Judge:
    """Answers by number; keeps the waves in which it was asked: all questions before anyone was answered."""

    def __init__(self, values: Callable[[int], int | None]) -> None:
        self.waves: list[list[int]] = []
        self._values = values
        self._is_open = False

    async def __call__(self, number: int) -> JudgeCall[int]:
        if not self._is_open:
            self._is_open = True
            self.waves.append([])
        self.waves[-1].append(number)
        await asyncio.sleep(0)
        self._is_open = False
        return call(number, self._values(number))


async def test_judge_that_never_answers_is_asked_once_and_one_without_a_verdict_again() -> None:
    """A failed call has had all its retries, up to its deadline: three of them would take three deadlines."""
    asked: list[int] = []

    async def ask(number: int) -> JudgeCall[int]:
        asked.append(number)
        return JudgeCall(f"vote {number}", "", None, None, "no answer", CallRun(), failed=True)

    assert len(await collect_votes(ask, all_of(1), at_most=3)) == 1
    assert len(await collect_votes(ask, all_of(3), at_most=5)) == 3
    assert asked == [0, 0, 1, 2]


def all_of(count: int) -> Callable[[Sequence[JudgeCall[int]]], int]:
    return lambda usable: count - len(usable)


@pytest.mark.parametrize(
    ("useless", "count", "at_most", "waves"),
    [
        (set(), 1, 3, [[0]]),
        (set(), 4, 6, [[0, 1, 2, 3]]),
        ({0}, 1, 3, [[0], [1]]),
        ({0, 1}, 1, 3, [[0], [1], [2]]),
        ({0, 1, 2}, 1, 3, [[0], [1], [2]]),
        ({1}, 3, 5, [[0, 1, 2], [3]]),
        ({0, 2}, 3, 5, [[0, 1, 2], [3, 4]]),
        ({0, 2, 3}, 3, 5, [[0, 1, 2], [3, 4]]),
        ({0, 1, 2}, 3, 5, [[0, 1, 2], [3, 4]]),
        ({1, 3}, 3, 5, [[0, 1, 2], [3], [4]]),
        ({1, 3, 4}, 3, 5, [[0, 1, 2], [3], [4]]),
        ({0, 1}, 2, 2, [[0, 1]]),
        (set(), 5, 3, [[0, 1, 2]]),
        (set(), 0, 3, []),
        (set(), -1, 3, []),
        (set(), 3, 0, []),
    ],
)
async def test_the_waves(useless: set[int], count: int, at_most: int, waves: list[list[int]]) -> None:
    judge = Judge(lambda number: None if number in useless else number)
    calls = await collect_votes(judge, all_of(count), at_most=at_most)
    assert judge.waves == waves
    asked = [number for wave in waves for number in wave]
    assert calls == [call(number, None if number in useless else number) for number in asked]


async def test_what_is_missing_is_asked_of_the_usable_answers_alone() -> None:
    seen: list[list[int | None]] = []

    def missing(usable: Sequence[JudgeCall[int]]) -> int:
        seen.append([each.value for each in usable])
        return 2 - len(usable)

    judge = Judge(lambda number: None if number == 1 else 0)
    await collect_votes(judge, missing, at_most=9)
    assert seen == [[], [0], [0, 0]]


async def test_zero_is_an_answer() -> None:
    judge = Judge(lambda number: 0)
    await collect_votes(judge, all_of(3), at_most=5)
    assert judge.waves == [[0, 1, 2]]


async def test_a_wave_is_in_flight_at_once() -> None:
    meeting = Meeting(5)

    async def ask(number: int) -> JudgeCall[int]:
        await meeting.wait()
        return call(number, number)

    assert len(await collect_votes(ask, all_of(5), at_most=7)) == 5


async def test_calls_come_in_the_order_of_their_numbers_whoever_is_first() -> None:
    turns = [asyncio.Event() for _ in range(4)]
    turns[3].set()

    async def ask(number: int) -> JudgeCall[int]:
        await turns[number].wait()
        turns[number - 1].set()
        return call(number, number)

    assert [each.value for each in await collect_votes(ask, all_of(4), at_most=4)] == [0, 1, 2, 3]


async def test_an_error_is_not_an_answer() -> None:
    async def ask(number: int) -> JudgeCall[int]:
        raise LookupError(number)

    with pytest.raises(LookupError):
        await collect_votes(ask, all_of(2), at_most=4)


@pytest.mark.parametrize(("count", "expected"), [(1, Vote(2)), (3, Vote(2, 12))])
def test_one_of_several_votes_has_a_seed(count: int, expected: Vote) -> None:
    assert vote(2, count=count, seed=10) == expected
