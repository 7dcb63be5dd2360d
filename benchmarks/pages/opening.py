"""How soon the page of a run can be used: from opening the file in Chromium to the answer of a key.

    python -m benchmarks.pages.opening [--rounds 5]

Two pages: that of a real offline evaluation of 2,000 rows (what `evaluate` itself writes), and one
of 10,000 made-up rows with about 18 KB of texts each. On the second it also searches all texts, and
measures the longest time for which
the page did not answer meanwhile. The bound of the first is the promise of the page: under two
seconds. Needs the extra `browser` and a Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measured import Measured, report, results_option
from tests.chromium import CHROMIUM
from tests.core.reports.run_page.made import HEAD, arena_like, prose, written

COMMAND = Path(__file__).resolve().parents[2] / "eval_environments" / "arena_hard_environment.py"
OPENED_S = 2.0
UNANSWERED_S = 0.1
ANSWERED = "document.activeElement?.className === 'row-link'"
SEARCHED = "document.getElementById('count').textContent.startsWith('0 of')"
WATCH = """() => {
  window.longest = 0;
  let last = performance.now();
  const look = () => {
    const now = performance.now();
    window.longest = Math.max(window.longest, now - last);
    last = now;
    setTimeout(look);
  };
  look();
}"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    results_option(parser)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        report(measured(Path(name), browser, options.rounds), options.results)
        browser.close()


def measured(folder: Path, browser: Any, rounds: int) -> Iterator[Measured]:
    real = evaluated(folder, 2000)
    made = written(folder / "made.html", arena_like(10_000), replace(HEAD, total=10_000))
    for work, path in (
        ("an offline evaluation of 2,000 rows", real),
        ("10,000 rows of 18 KB", made),
    ):
        megabytes = path.stat().st_size / 1e6
        opened = statistics.median(opening(browser, path) for _ in range(rounds))
        what = f"{work}, {megabytes:.0f} MB: from opening the file to the answer of a key"
        yield Measured("page of a run", what, "s", opened, "promise", OPENED_S, at_most=1.0)
    searches = [searching(browser, made) for _ in range(rounds)]
    print(
        "a search of all texts of 10,000 rows: "
        f"{statistics.median(seconds for seconds, _ in searches):.2f} s"
    )
    longest = statistics.median(longest for _, longest in searches)
    what = "a search of 10,000 rows of 18 KB: the longest time without an answer"
    yield Measured(
        "page of a run", what, "s", longest, "what a person notices", UNANSWERED_S, at_most=1.0
    )


def evaluated(folder: Path, count: int) -> Path:
    """The page that `evaluate` writes of this many rows, answered and judged offline."""
    chance = random.Random(1)
    files = {"prompts": ("prompt", 2000), "baseline": ("answer", 6000), "answers": ("answer", 6000)}
    for file, (field, characters) in files.items():
        rows = (
            {"uid": f"row-{number}", field: prose(chance, characters)} for number in range(count)
        )
        (folder / f"{file}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    options = [
        "--env.eval_prompt_dataset=prompts.jsonl",
        "--env.eval_baseline_dataset=baseline.jsonl",
        "--env.model_answers=answers.jsonl",
        "--env.data_dir_to_save_evals=run",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("JUDGEGYM_")
    }
    command = [sys.executable, COMMAND, "evaluate", "--offline", *options]
    subprocess.run(command, check=True, cwd=folder, env=environment, **quiet)  # type: ignore[call-overload]
    return folder / "run" / "report.html"


def opening(browser: Any, path: Path) -> float:
    page = browser.new_context().new_page()
    begun = time.perf_counter()
    page.goto(path.as_uri(), wait_until="commit")
    page.wait_for_selector(".row-link", timeout=120_000)
    page.keyboard.press("j")
    wait(page, ANSWERED)
    seconds = time.perf_counter() - begun
    page.context.close()
    return seconds


def searching(browser: Any, path: Path) -> tuple[float, float]:
    """How long a search that finds nothing takes, and the longest time for which the page did not answer."""
    page = browser.new_context().new_page()
    page.goto(path.as_uri())
    page.evaluate(WATCH)
    begun = time.perf_counter()
    page.fill("#q", "nowhere-to-be-found")
    wait(page, f"{SEARCHED} && !document.getElementById('count').textContent.includes('searching')")
    seconds = time.perf_counter() - begun
    longest = float(page.evaluate("window.longest")) / 1000
    page.context.close()
    return seconds, longest


def wait(page: Any, expression: str) -> None:
    while not page.evaluate(expression):
        page.wait_for_timeout(5)


if __name__ == "__main__":
    main()
