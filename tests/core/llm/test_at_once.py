import asyncio

import pytest

from judgegym.llm.at_once import SingleFlight, gather_results


class Call:
    """A call that ends when it is told to, and counts how often it was begun."""

    def __init__(self, answer: object = "answer") -> None:
        self.begun = 0
        self.end = asyncio.Event()
        self._answer = answer

    async def __call__(self) -> object:
        self.begun += 1
        await self.end.wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


async def settle() -> None:
    """Let every task run as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def start(
    flight: SingleFlight[object], key: str, call: Call
) -> asyncio.Task[tuple[object, bool]]:
    """A caller that has asked and waits."""
    task = asyncio.create_task(flight.run(key, call))
    await settle()
    return task


async def test_if_the_one_who_began_is_cancelled_another_takes_over() -> None:
    flight, call = SingleFlight[object](), Call()
    leader, *others = [await start(flight, "key", call) for _ in range(3)]
    leader.cancel()
    await settle()
    assert leader.cancelled() and call.begun == 2
    call.end.set()
    assert sorted(await asyncio.gather(*others)) == [("answer", False), ("answer", True)]


async def test_a_cancelled_follower_leaves_the_others_alone() -> None:
    flight, call = SingleFlight[object](), Call()
    leader, follower, other = [await start(flight, "key", call) for _ in range(3)]
    follower.cancel()
    await settle()
    assert follower.cancelled()
    call.end.set()
    assert await asyncio.gather(leader, other) == [("answer", False), ("answer", True)]
    assert call.begun == 1


@pytest.mark.parametrize("backwards", [False, True])
async def test_all_who_are_cancelled_at_once_stop(backwards: bool) -> None:
    flight, call = SingleFlight[object](), Call()
    callers = [await start(flight, "key", call) for _ in range(3)]
    for caller in reversed(callers) if backwards else callers:
        caller.cancel()
    await settle()
    try:
        assert [caller.cancelled() for caller in callers] == [True] * 3
        assert call.begun == 1
    finally:
        call.end.set()
        await asyncio.gather(*callers, return_exceptions=True)


async def current_task() -> asyncio.Task[object] | None:
    return asyncio.current_task()


async def test_a_single_call_is_awaited_without_a_task_and_several_have_one_each() -> None:
    caller = asyncio.current_task()
    assert await gather_results([current_task()]) == [caller]
    several = await gather_results([current_task(), current_task()])
    assert caller not in several and len(set(several)) == 2
    assert await gather_results([]) == []
