"""What a run says while it runs: on a terminal, in a pipe, in its log."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from judgegym.engine.terminal import ProgressDisplay, ProgressState, progress
from tests.core.engine.terminal.screen import screen


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress, "time", found)
    return found


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, logger="judgegym")
    return lambda: [record.getMessage() for record in caplog.records]


def state(done: int, **other: object) -> ProgressState:
    return ProgressState(done, "win rate", 0.5, 0, **other)  # type: ignore[arg-type]


async def run(
    clock: Clock,
    states: list[tuple[float, ProgressState]],
    *,
    left: int,
    log: progress.Log = lambda line: None,
) -> None:
    """A run that is looked at after each number of seconds."""
    now = states[0][1]
    with (
        ProgressDisplay("evaluate", "rows") as display,
        display.follow(lambda: now, log, left=left),
    ):
        for seconds, now in states[1:]:  # `look` sees it
            clock.now += seconds
            display._show(now, log)


@pytest.mark.parametrize(
    ("other", "tally"),
    [
        ({"headline": 0.5, "failures": 2, "costs": {"judge": 1.5, "policy": None}},
         "win rate 0.500, 2 failed, judge $1.50, policy cost unknown"),
        ({"headline": 0.5, "failures": 0, "costs": {"judge": None, "policy": None}}, "win rate 0.500, cost unknown"),
        ({"headline": None, "failures": 1234, "costs": {"judge": 0.012}}, "1,234 failed, judge $0.0120"),
        ({"headline": None, "failures": 0}, ""),
    ],
)  # fmt: skip
def test_the_tally_says_what_there_is_to_say(other: dict[str, object], tally: str) -> None:
    assert ProgressState(1, "win rate", **other).tally == tally  # type: ignore[arg-type]


async def test_short_run_in_a_pipe_is_one_line(clock: Clock, said: Callable[[], list[str]]) -> None:
    await run(clock, [(0.0, state(0)), *((0.1, state(row)) for row in range(1, 21))], left=20)
    assert said() == ["20 of 20 rows, in 2.0 s, win rate 0.500"]


async def test_run_in_a_pipe_says_a_line_at_each_tenth_but_not_faster_than_five_seconds(
    clock: Clock, said: Callable[[], list[str]]
) -> None:
    await run(clock, [(0.0, state(0)), *((1.0, state(row)) for row in range(1, 101))], left=100)
    assert [line.partition(" of ")[0] for line in said()] == [
        str(row) for row in range(10, 101, 10)
    ]
    assert said()[4] == "50 of 100 rows, 1.0 rows/s, 50 s left, win rate 0.500"


async def test_slow_run_in_a_pipe_is_never_silent_for_longer_than_a_minute(
    clock: Clock, said: Callable[[], list[str]]
) -> None:
    waiting = state(1, waiting="the judge is away")
    await run(
        clock, [(0.0, state(0)), (30.0, state(1)), *((10.0, waiting) for _ in range(15))], left=1000
    )
    assert [line.partition(" of ")[0] for line in said()] == ["1", "1", "1"]
    assert said()[-1].endswith("win rate 0.500, the judge is away")


async def test_resumed_run_says_the_time_of_what_is_left(
    clock: Clock, said: Callable[[], list[str]]
) -> None:
    await run(
        clock, [(0.0, state(900)), *((1.0, state(900 + row)) for row in range(1, 101))], left=100
    )
    assert said() == [
        "960 of 1,000 rows, 1.0 rows/s, 40 s left, win rate 0.500",
        "1,000 of 1,000 rows, in 1 min 40 s, win rate 0.500",
    ]


async def test_nothing_left_says_nothing(clock: Clock, said: Callable[[], list[str]]) -> None:
    await run(clock, [(0.0, state(7)), (1.0, state(7))], left=0)
    assert said() == []


async def test_stopped_run_says_how_far_it_was(clock: Clock, said: Callable[[], list[str]]) -> None:
    states = iter([state(0), state(3)])
    with (
        pytest.raises(asyncio.CancelledError),
        ProgressDisplay("evaluate", "rows") as display,
        display.follow(lambda: next(states), print, left=10),
    ):
        raise asyncio.CancelledError
    assert said() == ["3 of 10 rows, win rate 0.500"]


@pytest.mark.parametrize("width", [60, 80, 200, 30])
async def test_on_a_terminal_there_is_a_bar_that_fits_and_the_log_has_the_lines(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]], width: int
) -> None:
    terminal, log = screen(monkeypatch, "stderr", width=width), list[str]()
    away = "the judge at http://10.1.2.3:8000/v1 refuses connections, for 12 s; all its calls wait"
    costs = {"judge": 12.3456, "policy": None}
    steps = [(1.0, state(row * 100, costs=costs, waiting=away)) for row in range(1, 11)]
    await run(clock, [(0.0, state(0)), *steps], left=1000, log=log.append)
    lines = terminal.shown.replace("\r", "\n").splitlines()
    assert max(map(cell_len, lines)) <= width
    if width >= 60:
        assert any("500/1,000 rows, 100.0 rows/s, 5 s left" in line for line in lines)
        assert any("win rate 0.500, judge $12.35, policy cost unknown" in line for line in lines)
    assert "refuses connections" in terminal.shown
    assert "computing the" in terminal.shown
    assert "computing" not in terminal.shown.rpartition("1,000/1,000")[2], (
        "what is left on the screen"
    )
    assert [line.partition(",")[0] for line in log[:2]] == ["500 of 1", "1"]
    assert said() == [], "the log of the run alone has the lines"


async def test_dumb_terminal_has_lines(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    terminal = screen(monkeypatch, "stderr", width=80, term="dumb")
    await run(clock, [(0.0, state(0)), (1.0, state(5))], left=5)
    assert said() == ["5 of 5 rows, in 1.0 s, win rate 0.500"]
    assert terminal.getvalue() == ""


async def test_the_display_looks_for_itself_again_and_again_and_once_more_at_the_end(
    monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(progress, "_REFRESH_S", 0.0)
    looks, often = itertools.count(1), asyncio.Event()

    def look() -> ProgressState:
        number = next(looks)
        if number == 5:
            often.set()
        return state(min(number, 10))

    with ProgressDisplay("evaluate", "rows") as display, display.follow(look, print, left=9):
        await asyncio.wait_for(often.wait(), 30)
        monkeypatch.setattr(progress, "_REFRESH_S", 1e6)
        await asyncio.sleep(0)
        shown_before = next(looks)
    assert next(looks) == shown_before + 2, "one look at the end"
    assert len(said()) == 1
