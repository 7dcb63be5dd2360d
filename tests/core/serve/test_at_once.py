"""Everything of a group that can run at once does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from judgegym.environments.training import serve as serving
from tests.arena import Arena, for_model
from tests.scripted import Json, Meeting, Reply, Script
from tests.serving import judging, sampling, serve
from tests.trainer import training, until


def met(meeting: Meeting, script: Callable[[Json, int], Reply | str]) -> Script:
    """A script whose first answers are held until as many requests as the meeting has places are there."""

    async def held(request: Json, number: int) -> Reply | str:
        await meeting.wait()
        return script(request, number)

    return held


async def test_one_request_and_all_its_judgments_at_once(arena: Arena) -> None:
    """Both games of all four completions are in flight together, though there is but one worker."""
    async with (
        training(4) as trainer,
        serve(
            arena,
            trainer.url,
            "--env.max_num_workers=1",
            "--env.max_batches_offpolicy=1",
            judge=met(Meeting(2 * 4), judging()),
        ) as served,
    ):
        await trainer.take()
        assert served.judge.peak == 8
        assert served.policy.peak == 1
        assert {body["n"] for body in served.policy.bodies} == {4}
        assert len(served.judge.requests) == 8 * len(served.policy.requests)


@pytest.mark.slow
async def test_a_group_that_takes_too_long_gives_its_place_up(arena: Arena) -> None:
    """The policy never answers its first request: without that group's place no batch of four groups would be full."""
    answers = sampling()
    async with (
        training(16) as trainer,
        serve(
            arena,
            trainer.url,
            "--env.max_batches_offpolicy=1",
            "--env.worker_timeout=3",
            policy=lambda request, number: (
                Reply(hang=True) if number == 1 else answers(request, number)
            ),
        ) as served,
    ):
        await trainer.take()
        assert served.counted("timed_out") > 0


@pytest.mark.slow
async def test_a_run_that_sends_nothing_says_why(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All groups are without a signal, so no step ever comes; the metrics are logged all the same."""
    monkeypatch.setattr(serving, "_LONGEST_WITHOUT_LOG_S", 0.0)
    caplog.set_level("INFO", "judgegym.environments.training.metrics")
    always = judging(lambda uid, index, as_a: for_model(uid, as_a))
    async with training(8) as trainer, serve(arena, trainer.url, judge=always):
        await until(lambda: "groups_without_signal_rate 1.000" in caplog.text, "it is logged")
        assert await trainer.poll() is None
