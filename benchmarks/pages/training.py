"""The page of a training of a million rollouts: its size, and how soon it opens; and how soon a live page shows a line.

A run directory is made up by what writes real ones: groups of eight completions of 2 KB go through
the choice of kept groups, and each step of 16 groups has its line, those of eight gold scores, and
every eighth step a check. Then `judgegym report` writes the page, and a Chromium opens it until a
group is open. The live page is `judgegym view` over
the same directory: a line is appended, and the time counts until the page shows its step. Needs the
extra `browser` and a Chromium.

    python -m benchmarks.pages.training [--rollouts 1000000] [--rounds 5] [--results FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measured import Measured, report, results_option
from judgegym.judges.core.tasks import JudgeTask
from judgegym.llm import wire
from judgegym.monitoring.group import MonitorGroup, MonitorRollout
from judgegym.monitoring.live_file import LIVE, MONITOR
from judgegym.reports.training.page import write_training_report
from tests.chromium import CHROMIUM
from tests.core.reports.run_page.made import prose
from tests.core.reports.training.made import MadeTraining
from tests.core.reports.view.made import viewed

SIZE, GROUPS, CHARACTERS = 8, 16, 2_000
MEGABYTES, OPENED_S, SHOWN_S = 20.0, 2.0, 2.0
OPENED = "document.querySelectorAll('.rollout-column').length"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rollouts", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    results_option(parser)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        report(
            measured(Path(name) / "run", browser, options.rollouts, options.rounds), options.results
        )
        browser.close()


def measured(run: Path, browser: Any, rollouts: int, rounds: int) -> Iterator[Measured]:
    training = made(run, rollouts)
    lines, live = ((run / name).stat().st_size / 1e6 for name in (MONITOR, LIVE))
    began = time.perf_counter()
    page = write_training_report(run)
    seconds = time.perf_counter() - began
    print(
        f"{lines:.0f} MB of {MONITOR} and {live:.1f} MB of {LIVE}: the page was written in "
        f"{seconds:.1f} s"
    )
    work = f"a training of {rollouts:,} rollouts"
    yield Measured(
        "page of a training",
        f"{work}: size",
        "MB",
        page.stat().st_size / 1e6,
        "promise",
        MEGABYTES,
        at_most=1,
    )
    opened = statistics.median(opening(browser, page) for _ in range(rounds))
    what = f"{work}: from opening the file to an open group"
    yield Measured("page of a training", what, "s", opened, "promise", OPENED_S, at_most=1)
    taken = list(showing(browser, training, rounds))
    what = f"{work}, live: from a line in the file to the page, the slowest of {rounds}"
    yield Measured("page of a training", what, "s", max(taken), "promise", SHOWN_S, at_most=1)


def made(path: Path, rollouts: int) -> MadeTraining:
    """A run directory of so many rollouts."""
    chance = random.Random(0)
    texts = [prose(chance, CHARACTERS) for _ in range(500)]
    training = MadeTraining(path)
    training.step(groups=GROUPS, size=SIZE)
    line = json.loads((path / MONITOR).read_bytes().splitlines()[1])
    kept, number = training.monitor.page_groups, training.monitor.groups
    with (path / MONITOR).open("ab") as file:
        for step in range(2, rollouts // (SIZE * GROUPS) + 1):
            line["at"] += 3.0
            line["step"]["step"] = step
            line["step"]["values"] = {name: chance.random() for name in line["step"]["values"]}
            file.write(wire.dumps(line) + b"\n")
            for place in range(GROUPS):
                number += 1
                scores = [chance.random() for _ in range(SIZE)]
                group = MonitorGroup(
                    number,
                    step,
                    f"row-{number % 5_000}",
                    JudgeTask("Explain it.", ()),
                    tuple(
                        MonitorRollout(chance.choice(texts), score, score, explanation="As it is.")
                        for score in scores
                    ),
                )
                kept.add(group)
                if place % 2:
                    kept.add_gold(group, {0: chance.random()})
                    gold = {"group": number, "step": step, "uid": group.uid, "scores": {"0": 0.5}}
                    file.write(wire.dumps({"at": line["at"], "gold": gold}) + b"\n")
            if step % 8 == 0:
                numbers = {
                    name: chance.random()
                    for name in ("gap", "error", "limit", "evidence", "training", "gold")
                }
                check = {
                    "step": step,
                    "rollouts": 64,
                    "order_agreement": 0.7,
                    "is_alarm": False,
                    **numbers,
                }
                file.write(wire.dumps({"at": line["at"], "check": check}) + b"\n")
    training.steps = training.monitor.groups = rollouts // (SIZE * GROUPS)
    training.alarm(group=number)
    training.live()
    return training


def opening(browser: Any, path: Path) -> float:
    page = browser.new_context().new_page()
    begun = time.perf_counter()
    page.goto(path.as_uri(), wait_until="commit")
    page.locator("#groups summary").first.click(timeout=120_000)
    until(page, OPENED)
    seconds = time.perf_counter() - begun
    page.context.close()
    return seconds


def showing(browser: Any, training: MadeTraining, rounds: int) -> Iterator[float]:
    """Append a line of a step, and wait until the page shows it; after a pause of another length each time."""
    with viewed(training.path) as (url, _):
        page = browser.new_context().new_page()
        page.goto(url)
        page.get_by_role("link", name="run").first.click()
        until(page, "document.querySelectorAll('#charts .chart').length")
        for place in range(rounds):
            page.wait_for_timeout(300 + 130 * place)
            step = 1_000_000 + place
            line = {
                "at": time.time(),
                "step": {"step": step, "groups": 1, "rollouts": 8, "values": {"reward_mean": 0.5}},
            }
            begun = time.perf_counter()
            training.write(wire.dumps(line) + b"\n")
            until(page, f"document.getElementById('charts').textContent.includes('{step:,}')")
            yield time.perf_counter() - begun
        page.context.close()


def until(page: Any, expression: str) -> None:
    while not page.evaluate(expression):
        page.wait_for_timeout(5)


if __name__ == "__main__":
    main()
