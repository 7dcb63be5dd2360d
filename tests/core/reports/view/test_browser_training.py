"""The live page of a training run in a real browser, while `serve` runs into the real rollout API."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER
from tests.chromium import Watched, needs_chromium, watched
from tests.command import PATIENCE_S, Started, eventually, serving, write_lines
from tests.core.reports.run_page.hostile import ATTACK
from tests.core.reports.training.made import MadeTraining
from tests.core.reports.view.made import viewed
from tests.core.server.served import as_process
from tests.rubrics import giving, task
from tests.scripted import Json
from tests.serving import sampling
from tests.trainer import RunApi, Trainer

pytestmark = [
    needs_chromium,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]  # three processes and a browser
T = TypeVar("T")
GROUP = 4


def hostile(request: Json, number: int, index: int) -> str:
    return f"completion {index} of request {number};{ATTACK}"


class TrainerOfThread:
    """The rollout API and a trainer, driven from another thread than their loop's."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.api = RunApi()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * PATIENCE_S)

    @contextmanager
    def training(self) -> Iterator[Trainer]:
        async def opened() -> Trainer:
            await self.api.start()
            trainer = Trainer(self.api.url, aiohttp.ClientSession())
            await trainer.register(2 * GROUP, num_steps=1_000)
            return trainer

        trainer = self.call(opened())
        try:
            yield trainer
        finally:
            self.call(trainer._session.close())
            self.api.kill()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE_S)


async def _ended(serve: Started, trainer: Trainer) -> bool:
    """Take what the next step needs; whether `serve` has ended."""
    await trainer.poll()
    await asyncio.sleep(0.05)
    return serve.process.poll() is not None


def quiet(seen: Watched) -> bool:
    return (seen.console, seen.errors, seen.dialogs, seen.refusals) == ([], [], [], [])


def test_it_follows_a_serve_into_the_real_rollout_api(browser: Any, tmp_path: Path) -> None:
    data = write_lines(tmp_path / "train.jsonl", [task(number) for number in range(8)])
    run = tmp_path / "runs" / "training"
    thread = TrainerOfThread()
    with (
        thread.training() as trainer,
        serving(sampling(hostile)) as policy,
        serving(
            giving(lambda instruction, response: 1 + int(response[len("completion ")]))
        ) as judge,
        Started(
            *(
                "-m",
                "judgegym",
                "serve",
                "rubric_absolute",
                f"--env.train_dataset={data}",
                "--env.group_size=4",
            ),
            *(f"--openai.base_url={policy.base_url}", f"--env.judge_base_url={judge.base_url}"),
            *(
                f"--env.rollout_server_url={trainer.url}",
                f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            ),
            *(
                f"--env.data_dir_to_save_evals={run}",
                "--env.steps_per_eval=-1",
                "--env.total_steps=8",
            ),
            *("--env.write_report=True", "--keep_calls=True"),
            cwd=tmp_path,
        ) as serve,
    ):
        serve.until((run / "live.jsonl").exists, "the first groups")
        with viewed(tmp_path / "runs") as (url, _), watched(browser, url) as seen:
            page = seen.page
            page.get_by_role("link", name="training").click()
            page.wait_for_selector("#facts dd")
            assert page.inner_text("#standing") == "training"
            for _ in range(2):
                step, taken = page.inner_text("#facts div:first-child"), len(trainer.batches)

                def has_moved(step: str = step, taken: int = taken) -> bool:
                    if (
                        len(trainer.batches) < taken + 3
                    ):  # one that was made before moves no step; after 8 the run ends
                        thread.call(trainer.poll())
                    page.wait_for_timeout(50)
                    return bool(page.inner_text("#facts div:first-child") != step)

                eventually(has_moved, "the next step on the page")
                seen.until("document.querySelectorAll('#charts .chart').length > 5", PATIENCE_S)
            page.locator("#groups summary").first.click()
            page.wait_for_selector(".rollout-column")
            page.get_by_role("button", name="Calls").first.click()
            page.wait_for_selector(".rollout-column details")
            assert page.locator(".rollout-column").count() == GROUP
            assert "completion 0 of request" in page.inner_text(".rollout-column")
            assert "</script></style>" in page.inner_text(".rollout-column")
            serve.until(lambda: thread.call(_ended(serve, trainer)), "its last step")
            assert serve.ended().code == 0
            seen.until("document.getElementById('standing').textContent === 'ended'", PATIENCE_S)
            assert (
                page.evaluate("window.ran") is None
                and page.locator("main img, main iframe").count() == 0
            )
            assert page.locator(".rollout-column").count() == GROUP, "what is opened stays open"
            assert quiet(seen)
        with watched(browser, run / "report.html") as seen:
            assert seen.page.inner_text("#standing") == "ended"
            seen.page.locator("#groups summary").first.click()
            seen.page.wait_for_selector(".rollout-column details")
            seen.assert_clean()


def test_it_follows_the_reward_server_of_any_trainer(browser: Any, tmp_path: Path) -> None:
    """With a gold judge beside its judge; here a trainer that sends the responses of a group one by one."""
    run = tmp_path / "runs" / "server"
    flags = ["--offline", "--judge=rubric", "--monitor_every=1", f"--run_dir={run}"]
    flags += ['--gold_judge={"judge":"rubric"}', "--gold_share=1"]
    with (
        as_process(*flags) as server,
        viewed(tmp_path / "runs") as (url, _),
        watched(browser, url) as seen,
    ):
        seen.page.get_by_role("link", name="server").click()
        for number in (1, 2, 3):
            score(server, number)
        seen.until(
            "document.getElementById('facts').textContent.includes('3 judged')", seconds=PATIENCE_S
        )
        seen.until(
            "document.getElementById('groups').textContent.includes('Group 3')", seconds=PATIENCE_S
        )  # a second later
        seen.page.locator("#groups summary").first.click()
        seen.page.wait_for_selector(".rollout-column")
        assert seen.page.locator(".rollout-column").count() == GROUP
        assert "completion 1 of request 3" in seen.page.inner_text("#groups")
        assert seen.page.evaluate("window.ran") is None and quiet(seen)


def score(url: str, number: int) -> None:
    for index in range(GROUP):
        body = json.dumps(
            {"prompt": f"Do {number}.", "response": hostile({}, number, index)}
        ).encode()
        request = urllib.request.Request(
            f"{url}/v1/score", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            assert response.status == 200


def test_memory_is_flat_over_twenty_thousand_rollouts(browser: Any, tmp_path: Path) -> None:
    """Nodes of the page and points of its curves, after 5,000 and after 20,000 rollouts."""
    training = MadeTraining(tmp_path / "run")
    training.step(groups=16, size=8)
    training.live()
    count = """() => [document.querySelectorAll('*').length,
      [...document.querySelectorAll('polyline, polygon')].reduce((sum, each) => sum + each.points.numberOfItems, 0)]"""
    sizes = []
    with viewed(tmp_path) as (url, _), watched(browser, url) as seen:
        seen.page.get_by_role("link", name="run").first.click()
        for step in range(10, 2_501, 10):
            for _ in range(10):
                training.step(groups=1, size=8)
            if step % 50 == 0:
                training.live()
            if step in (620, 2_490):
                training.live()
                seen.until(
                    "document.getElementById('facts').textContent.includes('step "
                    f"{training.steps:,}')",
                    PATIENCE_S,
                )
                sizes.append(seen.page.evaluate(count))
        assert quiet(seen)
    (nodes, points), (later_nodes, later_points) = sizes
    assert later_nodes < 1.1 * nodes and later_points < 1.3 * points, sizes


def test_an_alarm_is_told_and_a_paused_run_is_let_go_on(browser: Any, tmp_path: Path) -> None:
    training = MadeTraining(tmp_path / "run")
    training.step()
    training.live()
    with viewed(tmp_path) as (url, view), watched(browser, url) as seen:
        page = seen.page
        page.get_by_role("link", name="run").first.click()
        page.wait_for_selector("#facts dd")
        assert page.locator("#alarms").is_hidden() and page.locator("#pause").is_hidden()
        training.alarm(group=2, rollout=1)
        training.monitor.note("pause", {"state": "paused", "by": "alarm", "step": 1})
        training.live()
        page.wait_for_selector("#alarms:visible")
        assert page.locator("#alarms").get_attribute("aria-live") == "polite"
        page.get_by_role("button", name="rollout 2 of group 2").click()
        page.wait_for_selector(".rollout-column.named")
        page.get_by_role("button", name="Let it go on").click()
        eventually((training.path / "resume").exists, "the run is told")
        training.monitor.note("pause", {"state": "resumed", "by": "page", "step": 1})
        seen.until("document.getElementById('pause').hidden", PATIENCE_S)
        assert quiet(seen)
        view.terminate()
        seen.until("document.getElementById('connection').textContent !== ''", PATIENCE_S)
