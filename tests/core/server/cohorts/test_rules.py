"""Which responses are judged together: the rules of `judgegym/server/cohorts.py`, each as a line, and what ends early.

The judge of these tests gives each response the number of those that it was judged with.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from judgegym.judges.config.thinking import ThinkingSettings
from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment, ScoresInProgress
from judgegym.llm.client import ChatClient
from judgegym.llm.types import ChatSettings, Endpoint
from judgegym.llm.usage import Usage
from judgegym.server.answers import OverloadError
from judgegym.server.cohorts import Cohorts, Gatherer
from judgegym.server.operation import CohortEvent, JudgeHealth, Record, Telemetry
from tests.trainer import until

NEVER_S = 10_000.0
"""A time that a test never waits."""
TASK = JudgeTask("Why?", ("",))


def member(number: int, text: str | None = None) -> JudgeTask:
    return replace(
        TASK, responses=(f"text {number}" if text is None else text,), member=str(number)
    )


class GroupInTest:
    """Gives each response the number of those that it was judged with."""

    def __init__(self, judge: JudgeInTest) -> None:
        self._judge = judge
        self.responses: list[str] = []
        self.was_cancelled = False

    def add(self, response: str) -> None:
        self.responses.append(response)

    async def close(self) -> list[ResponseJudgment]:
        self._judge.closed.append(self.responses)
        await self._judge.opened.wait()
        if self._judge.error is not None:
            raise self._judge.error
        paid = [Usage(prompt_tokens=10), *[Usage()] * (len(self.responses) - 1)]
        return [
            ResponseJudgment(
                len(self.responses) / 100,
                "ok",
                explanation=response,
                usage=usage,
                judge_calls=number == 0,
            )
            for number, (response, usage) in enumerate(zip(self.responses, paid, strict=True))
        ]

    def cancel(self) -> None:
        self.was_cancelled = True


@dataclass
class JudgeInTest:
    """A judge of groups that answers while it is `opened`, or raises `error`."""

    fewest_members: int = 2
    error: Exception | None = None
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    groups: list[GroupInTest] = field(default_factory=list)
    closed: list[list[str]] = field(default_factory=list)
    settings: ThinkingSettings = field(default_factory=ThinkingSettings)

    def __post_init__(self) -> None:
        self.opened.set()

    def check(self, item: JudgeTask) -> None:
        raise AssertionError("a single response is not checked as a group")

    def compares(self, item: JudgeTask) -> bool:
        return True

    async def score(self, item: JudgeTask) -> list[ResponseJudgment]:
        raise AssertionError("a cohort is judged as it was begun")

    def min_responses(self, item: JudgeTask) -> int:
        return self.fewest_members

    def begin(self, item: JudgeTask, size: int) -> ScoresInProgress:
        self.groups.append(GroupInTest(self))
        return self.groups[-1]


class TelemetryInTest(Telemetry):
    def __init__(self, told: list[ResponseJudgment], events: Counter[str]) -> None:
        super().__init__()
        self.told, self.events = told, events

    def count_judgment(self, judge: str, result: ResponseJudgment) -> None:
        self.told.append(result)

    def count_cohort(self, judge: str, event: CohortEvent) -> None:
        self.events[event] += 1


class Hall:
    """Cohorts before a judge, and what is told of them."""

    def __init__(
        self,
        judge: JudgeInTest | None = None,
        *,
        size: int = 3,
        wait_s: float = NEVER_S / 2,
        deadline_s: float = NEVER_S,
        most: int = 1000,
    ) -> None:
        self.judge = judge or JudgeInTest()
        self.told: list[ResponseJudgment] = []
        self.events: Counter[str] = Counter()
        client = ChatClient(ChatSettings(endpoints=(Endpoint("http://127.0.0.1:1/v1", "model"),)))
        self.health = JudgeHealth(client, "", Telemetry())
        record = Record({"": self.health}, TelemetryInTest(self.told, self.events))
        self.cohorts = Cohorts(
            {"": Gatherer(self.judge, size, wait_s)},
            deadline_s=deadline_s,
            record=record,
            is_full=lambda: self.cohorts.pending >= most,
        )

    def join(self, item: JudgeTask, spent_s: float = 0.0) -> Coroutine[Any, Any, ResponseJudgment]:
        return self.cohorts.join("", item, spent_s)

    async def all(self, *items: JudgeTask) -> list[ResponseJudgment]:
        return await asyncio.gather(*(self.join(item) for item in items))

    async def waiting(self, *items: JudgeTask) -> list[asyncio.Task[ResponseJudgment]]:
        """Callers that wait for their results, their responses in a cohort."""
        before = self.cohorts.pending
        tasks = [asyncio.ensure_future(self.join(item)) for item in items]
        await until(lambda: self.cohorts.pending == before + len(items), "all have a place")
        return tasks


async def left(task: asyncio.Task[ResponseJudgment]) -> None:
    """The caller leaves."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_caller_whose_deadline_began_earlier_closes_the_cohort_earlier() -> None:
    """Both would wait for ever otherwise: a half of the time that the other one has left is the judge's."""
    hall = Hall()
    one, other = hall.join(member(0)), hall.join(member(1), spent_s=NEVER_S - 2)
    assert [result.score for result in await asyncio.gather(one, other)] == [0.02, 0.02]


async def test_member_that_is_late_for_a_cohort_that_closed_early_is_told_when_it_closed() -> None:
    hall = Hall(wait_s=NEVER_S / 2)
    await asyncio.gather(hall.join(member(0)), hall.join(member(1), spent_s=NEVER_S - 0.1))
    late = await hall.join(member(2))
    assert re.search(r"closed with 2 of 3 members 0\.\d+ s after", late.explanation)


async def test_judgment_outlives_its_callers_and_a_repeated_request_finds_it() -> None:
    hall = Hall(deadline_s=2.0, wait_s=0.01)
    hall.judge.opened.clear()
    overdue = await hall.all(member(0), member(1))
    assert len(overdue) == 2
    assert all("the server's deadline" in result.explanation for result in overdue)
    hall.judge.opened.set()
    await until(lambda: hall.cohorts.pending == 0, "the cohort is judged")
    assert (await hall.join(member(0))).score == 0.02
    assert len(hall.judge.closed) == 1


async def test_empty_response_takes_a_place_is_answered_at_once_and_no_judge_sees_it() -> None:
    hall = Hall()
    empty = await hall.join(member(0, " \n"))
    fault = await hall.join(replace(member(1, ""), fault="it has no response"))
    assert (empty.status, empty.score) == ("invalid_completion", None)
    assert fault.explanation == "it has no response"
    alone = await hall.join(member(2))
    assert alone.explanation.startswith("3 of 3 members came")
    assert ", 2 of them" in alone.explanation and "nothing to judge" in alone.explanation
    assert (hall.judge.closed, hall.events) == ([], {"opened": 1, "full": 1})


async def test_further_cohort_is_refused_when_there_is_no_room_and_a_member_of_an_open_one_is_not() -> (
    None
):
    """Otherwise the places that are free in open cohorts would stay free, and everyone would wait for nobody."""
    hall = Hall(most=2)
    tasks = await hall.waiting(member(0), member(1))
    with pytest.raises(OverloadError):
        await hall.join(replace(member(0), prompt="Who?"))
    empty = await hall.join(replace(member(1, ""), prompt="Who?"))
    assert empty.status == "invalid_completion"
    tasks.append(asyncio.ensure_future(hall.join(member(0))))
    results = [await hall.join(member(2)), *await asyncio.gather(*tasks)]
    assert [result.score for result in results] == [0.03] * 4
    assert hall.events == {"opened": 1, "full": 1}


async def test_caller_whose_time_is_over_closes_no_cohort() -> None:
    hall = Hall()
    tasks = await hall.waiting(member(0))
    overdue = await hall.join(member(1), spent_s=NEVER_S + 1)
    assert "the server's deadline" in overdue.explanation
    await asyncio.sleep(0.05)
    assert not hall.events["short"]
    assert (await hall.join(member(2))).score == 0.03
    assert (await tasks[0]).score == 0.03


async def test_judge_that_raises_fails_its_cohort_and_those_who_ask_again_are_judged_anew() -> None:
    hall = Hall(JudgeInTest(error=ValueError("out of order")))
    items = [member(number) for number in range(3)]
    failed = await hall.all(*items)
    hall.judge.error = None
    judged = await hall.all(*items)
    assert [result.explanation for result in failed] == ["ValueError: out of order"] * 3
    assert [result.score for result in judged] == [0.03] * 3


async def test_stop_judges_open_cohorts_at_once_and_whoever_comes_after_it() -> None:
    hall = Hall()
    tasks = await hall.waiting(member(0), member(1))
    hall.cohorts.stop()
    assert [result.score for result in await asyncio.gather(*tasks)] == [0.02] * 2
    alone = await hall.join(replace(member(0), prompt="Who?"))
    assert alone.explanation.startswith("1 of 3 members came")
    assert "the server stopped" in alone.explanation


async def test_close_gives_up_what_is_gathered_and_what_is_judged() -> None:
    hall = Hall()
    hall.judge.opened.clear()
    judging = await hall.waiting(*(member(number) for number in range(3)))
    await until(lambda: bool(hall.judge.closed), "the judge is asked")
    gathered = await hall.waiting(*(replace(member(number), prompt="Who?") for number in range(2)))
    await hall.cohorts.aclose()
    results = await asyncio.gather(*judging, *gathered)
    assert [result.score for result in results] == [None] * 5
    assert hall.cohorts.pending == 0
    assert [group.was_cancelled for group in hall.judge.groups] == [True] * 2


WAIT_S, DEADLINE_S = 50.0, 100.0
RULES = {
    "members join until all are there, and the next one opens another": (
        "0A 1B 2C 3D 4E 5F",
        "ABC DEF",
    ),
    "responses of another key are another cohort": ("0A 1B 0A/P 1B/P 2C 2C/P", "ABC ABC"),
    "a repeated member has its place while its cohort is open": ("0A 0A 1B 2C", "ABC"),
    "and when its caller has left": ("0A x 1B 0A 2C", "ABC"),
    "and its result when it is judged": ("0A 1B 2C 0A", "ABC"),
    "until that is forgotten": ("0A 1B 2C +101 0A 1D 2E", "ABC ADE"),
    "a member with another text is the next epoch's": ("0A 0D 1B 1E 2C 2F", "ABC DEF"),
    "also when the first one is judged": ("0A 1B 2C 0D 1E 2F", "ABC DEF"),
    "an equal text without an id is another member while its caller waits": ("-A -A -A", "AAA"),
    "a retry when its caller has left": ("-A x -A -B -C", "ABC"),
    "and when its cohort is judged": ("-A -B -C -A", "ABC"),
    "an equal text with another id is another member": ("0A 1A 2B", "AAB"),
    "an empty response without an id takes a place each time": ("-_ -_ -A", "A"),
    "one with an id takes one": ("0_ 0_ 1A 2B", "AB"),
    "a cohort is closed short when the time is over": ("0A 1B +51", "AB"),
    "a member that comes then is late": ("0A 1B +51 2C", "AB late:C"),
    "as is one without an id, for as long as the time to wait": (
        "-A +51 -B +51 -C +51",
        "A C late:B",
    ),
    "a late member that comes again is late again, and counts once": (
        "-A +51 -B -C -B -D +51",
        "A D late:B late:C late:B",
    ),
    "an id that the short cohort has is the next epoch's": ("0A +51 1B 0C 1D +51", "A CD late:B"),
    "nobody is late for a full cohort": ("0A 1B 2C 3D +51", "ABC D"),
    "ids are told apart to their end": (f"{'x' * 999}1A {'x' * 999}2A -B", "AAB"),
}


@pytest.mark.parametrize(("script", "expected"), RULES.values(), ids=RULES)
def test_rule(script: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A response is its member's id, or -, and its text, or _; x: the last caller leaves; +51: so many seconds pass."""

    async def play() -> list[str]:
        hall = Hall(JudgeInTest(fewest_members=1), wait_s=WAIT_S, deadline_s=DEADLINE_S)
        loop, passed, callers = (
            asyncio.get_running_loop(),
            [0.0],
            list[tuple[str, asyncio.Task[ResponseJudgment]]](),
        )
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + passed[0])
        for step in script.split():
            sent, _, prompt = step.partition("/")
            if step == "x":
                await left(callers.pop()[1])
            elif step[0] == "+":
                passed[0] += float(step[1:])
            else:
                name, text = None if sent[0] == "-" else sent[:-1], sent[-1].replace("_", "")
                task = JudgeTask(prompt or "Why?", (text,), member=name)
                callers.append((text, asyncio.ensure_future(hall.join(task))))
            for _ in range(
                10
            ):  # steps of the event loop: places are taken, timers ring, the judge answers
                await asyncio.sleep(0)
        assert all(caller.done() for _, caller in callers), "nobody waits for the rest of the time"
        late = [f"late:{text}" for text, caller in callers if "late:" in (await caller).explanation]
        assert hall.cohorts.pending == 0
        return ["".join(group) for group in hall.judge.closed] + late

    assert " ".join(asyncio.run(play())) == expected


async def test_results_are_kept_in_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judgegym.server.cohorts.MOST_KEPT", 4)
    hall = Hall(size=2)
    prompts = [[replace(member(number), prompt=prompt) for number in range(2)] for prompt in "abc"]
    for tasks in [*prompts, prompts[1], prompts[2], prompts[0]]:
        await hall.all(*tasks)
    assert len(hall.judge.closed) == 4, "the first one is forgotten, the others are not"
