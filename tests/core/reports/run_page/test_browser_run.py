"""The page that `evaluate` writes of a real run of 500 rows, in a real browser."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import Watched, needs_chromium, watched
from tests.command import SCRIPT
from tests.core.reports.run_page.made import prose

pytestmark = needs_chromium

ROWS = 500


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory: existing answers against a baseline, judged by the stand-in, in five categories."""
    folder = tmp_path_factory.mktemp("run")
    chance = random.Random(7)
    for file, field, characters in (
        ("prompts", "prompt", 300),
        ("baseline", "answer", 900),
        ("answers", "answer", 900),
    ):
        rows = [
            {
                "uid": f"row-{number}",
                "category": f"category {number % 5}",
                field: f"{prose(chance, characters)} {number}",
            }
            for number in range(ROWS)
        ]
        (folder / f"{file}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    options = [
        "--env.eval_prompt_dataset=prompts.jsonl",
        "--env.eval_baseline_dataset=baseline.jsonl",
        "--env.model_answers=answers.jsonl",
        "--env.data_dir_to_save_evals=run",
        "--env.write_report=True",
    ]
    command = [sys.executable, str(SCRIPT), "evaluate", "--offline", *options]
    subprocess.run(
        command, check=True, cwd=folder, env={**os.environ, "NO_COLOR": "1"}, capture_output=True
    )
    return folder / "run"


def count(seen: Watched) -> int:
    found = re.match(r"([\d,]+)", seen.page.inner_text("#count"))
    assert found is not None
    return int(found.group(1).replace(",", ""))


def test_filters_order_search_and_keys_show_what_is_in_the_files(browser: Any, run: Path) -> None:
    samples = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    by_length = sorted(samples, key=lambda sample: len(sample["model_answer"]))
    with watched(browser, run / "report.html") as seen:
        page = seen.page
        page.wait_for_selector(".row-link")
        assert count(seen) == ROWS
        page.select_option("#category", "=category 3")
        seen.until("document.getElementById('count').textContent === '100 of 500 samples'")
        page.fill("#min", "1")
        wins = sum(
            sample["category"] == "category 3" and sample["score"] == 1 for sample in samples
        )
        seen.until(f"document.getElementById('count').textContent === '{wins} of 500 samples'")
        page.click("#clear")
        page.select_option("#sort", "length")
        length = len(by_length[0]["model_answer"])
        seen.until(f"document.querySelector('.row-length').textContent.startsWith('{length}')")
        page.click("#clear")
        page.fill("#q", f'"{samples[123]["model_answer"][-60:]}"')
        seen.until("document.getElementById('count').textContent === '1 of 500 samples'")
        page.click(".row-link")
        page.wait_for_selector(".column")
        assert (
            page.locator("section[aria-label^=Answer] pre").first.text_content()
            == samples[123]["model_answer"]
        )
        assert page.locator("h3", has_text="Answer beside baseline").count() == 1
        page.locator("summary", has_text="game_1").click()
        page.wait_for_selector(".text-box mark")
        assert re.fullmatch(
            r"\[\[[AB][>=][AB]\]\]", str(page.locator(".text-box mark").first.text_content())
        )
        asked = page.locator("details:has(.call-name) .text-box").all_text_contents()
        assert any(samples[123]["model_answer"] in text for text in asked)
        page.keyboard.press("Escape")
        page.wait_for_selector("#clear:not([disabled])")
        page.click("#clear")
        seen.until("document.getElementById('count').textContent === '500 samples'")
        page.click(".row-link >> nth=0")
        page.wait_for_selector(".column")
        for _ in range(30):  # into the next chunk
            page.keyboard.press("j")
        seen.until("document.getElementById('place').textContent === '31 of 500'")
        last = samples[30]["uid"].removeprefix("row-")
        seen.until(
            "document.querySelector('section[aria-label^=Answer] pre').textContent.endsWith(' "
            f"{last}')"
        )
        seen.assert_clean()
