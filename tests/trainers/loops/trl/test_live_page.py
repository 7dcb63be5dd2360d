"""The live page of a reward server's run directory, in a real browser, while TRL's `GRPOTrainer` trains."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import needs_chromium, watched
from tests.command import PATIENCE_S
from tests.core.reports.view.made import viewed
from tests.core.server.served import as_process
from tests.trainers.loops import trainers

pytestmark = [needs_chromium, pytest.mark.timeout(300)]
GROUP, STEPS = 4, 12
TEXTS = [f"completion {number} <img src=x onerror='window.ran = true'>" for number in range(GROUP)]


def test_it_moves_while_trl_trains(browser: Any, tmp_path: Path) -> None:
    trainers.place_of("trl")  # skip before anything starts: a thread cannot
    run = tmp_path / "runs" / "server"
    flags = ["--offline", "--judge=rubric", "--monitor_every=1", f"--run_dir={run}", '--faults={"latency_ms": 1000}']
    flags += ['--gold_judge={"judge":"rubric"}', "--gold_share=1"]
    ended: list[trainers.Ended] = []
    with as_process(*flags) as server, viewed(tmp_path / "runs") as (url, _), watched(browser, url) as seen:
        rows = [{"prompt": f"Do {number}."} for number in range(STEPS)]
        shape = {"reward": {"judge": {"url": server}}, "rows": rows, "per_device": GROUP, "generations": GROUP}
        runs = {"live": {**shape, "texts": TEXTS, "config": {"max_steps": STEPS}}}

        def train() -> None:
            ended.append(asyncio.run(trainers.run("trl", "program.py", str(tmp_path), runs)))

        trainer = threading.Thread(target=train)
        trainer.start()
        try:
            seen.page.get_by_role("link", name="server").click()
            count = "parseInt(/(\\d+) judged/.exec(document.getElementById('facts').textContent)?.[1])"
            seen.until(f"{count} >= 1", PATIENCE_S)
            first = seen.page.evaluate(count)
            assert first < STEPS, "the page moves while the training runs, and not only at its end"
            seen.until(f"{count} > {first}", PATIENCE_S)
            seen.until(f"document.getElementById('facts').textContent.includes('{STEPS} judged')", PATIENCE_S)
        finally:
            trainer.join(PATIENCE_S)
        seen.page.locator("#groups summary").first.click()
        seen.page.wait_for_selector(".rollout-column")
        assert seen.page.locator(".rollout-column").count() == GROUP
        assert TEXTS[1] in seen.page.inner_text("#groups")
        assert seen.page.evaluate("window.ran") is None
    assert [each.code for each in ended] == [0], ended
