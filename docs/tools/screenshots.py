"""Make the pictures of a run's page in `docs/`: desktop, phone, dark.

    python docs/tools/screenshots.py [--data DIRECTORY]

Evaluates Arena-Hard offline, with the stand-in as judge, and opens the page that this writes in Chromium. `--data` has
`prompts.jsonl` and existing answers, `answers_gpt-4-0314.jsonl` (the baseline) and `answers_gpt-3.5-turbo-0125.jsonl`;
without it, the bundled rows are evaluated. Needs the extras `environments` and `browser`.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from PIL import Image
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).resolve().parents[1]
COMMAND = DOCS.parent / "eval_environments" / "arena_hard_environment.py"
MOST_BYTES = 190_000
Scheme = Literal["light", "dark"]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 812}


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    data = parser.parse_args().data
    with tempfile.TemporaryDirectory() as folder:
        page = evaluated(Path(folder) / "run", data)
        with chromium() as browser:
            take(browser, page)


def evaluated(run: Path, data: Path | None) -> Path:
    """The page of a run of these data."""
    options = [f"--env.data_dir_to_save_evals={run}"]
    if data is not None:
        options += [
            "--env.eval_prompt_dataset=prompts.jsonl",
            "--env.eval_baseline_dataset=answers_gpt-4-0314.jsonl",
            "--env.model_answers=answers_gpt-3.5-turbo-0125.jsonl",
        ]
    command = [sys.executable, COMMAND.resolve(), "evaluate", "--offline", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=data)
    return run / "report.html"


@contextmanager
def chromium() -> Iterator[Any]:
    """The system's Chromium, without a window."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def take(browser: Any, path: Path) -> None:
    """Take the pictures: head, list with a filter, opened sample, one of its calls; some on a phone and in the dark."""
    views: list[tuple[str, dict[str, int], Scheme, set[str]]] = [
        ("report", DESKTOP, "light", {"", "-list", "-sample", "-call"}),
        ("report-phone", PHONE, "light", {"-list", "-sample"}),
        ("report-dark", DESKTOP, "dark", {"", "-sample"}),
    ]
    for name, size, scheme, wanted in views:
        page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
        for step, show in STEPS.items():
            show(page, path)
            page.wait_for_timeout(300)
            if step in wanted:
                save(page, DOCS / "images" / f"{name}{step}.png")


def show_head(page: Any, path: Path) -> None:
    """The page as it opens."""
    page.goto(path.as_uri())
    page.wait_for_selector(".row-link")


def show_list(page: Any, path: Path) -> None:
    """The rows that were lost, the longest answers first."""
    page.goto(f"{path.as_uri()}#?outcome=loss&sort=length&reverse=1")
    page.click("#to-samples")


def show_sample(page: Any, path: Path) -> None:
    """A row, opened from the list."""
    page.click(".row-link >> nth=2")
    page.wait_for_selector(".column")


def show_call(page: Any, path: Path) -> None:
    """A call of the opened row, where its verdict stands."""
    page.click("#detail summary:has(.call-name) >> nth=0")
    page.wait_for_selector(".text-box mark")
    page.locator(".text-box mark").first.evaluate("mark => mark.scrollIntoView({block: 'center'})")


STEPS = {"": show_head, "-list": show_list, "-sample": show_sample, "-call": show_call}


def save(page: Any, path: Path) -> None:
    """Write a picture of what is in view; one that is large in 256 colours."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        picture.quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    main()
