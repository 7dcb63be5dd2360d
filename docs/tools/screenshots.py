"""Make the pictures of `docs/`: what the pages' own commands write and serve, in Chromium.

    python docs/tools/screenshots.py first|server|runs [--data DIRECTORY]

`first` takes the page of the run of `first_evaluation.md`, `server` that of `server.md`, `runs` the
page of a run on a desktop, a phone and in the dark. For `runs`, `--data` has `prompts.jsonl` and
existing answers, `answers_gpt-4-0314.jsonl` (the baseline) and `answers_gpt-3.5-turbo-0125.jsonl`;
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
MOST_BYTES = 190_000
Scheme = Literal["light", "dark"]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 812}


def main() -> None:
    """Make the pictures that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["first", "server", "runs"])
    parser.add_argument("--data", type=Path)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        if flags.what == "first":
            take_first(browser, Path(folder))
        elif flags.what == "server":
            take_server(browser, Path(folder))
        else:
            take(browser, evaluated(Path(folder) / "run", flags.data))


def judgegym(*words: str, cwd: Path | None = None) -> None:
    """Run a command of the pages."""
    subprocess.run(
        [sys.executable, "-m", "judgegym", *words], check=True, stdout=subprocess.DEVNULL, cwd=cwd
    )


def take_first(browser: Any, folder: Path) -> None:
    """The page of a first run."""
    judgegym(
        "evaluate", "arena_hard", "--offline", "--env.data_dir_to_save_evals=runs/first", cwd=folder
    )
    page = browser.new_context(viewport=DESKTOP, color_scheme="light").new_page()
    page.goto((folder / "runs/first/report.html").as_uri())
    page.wait_for_timeout(500)
    save(page, DOCS / "images" / "first_report.png")


def take_server(browser: Any, folder: Path) -> None:
    """The page of the reward server, with one judgment."""
    words = (
        sys.executable,
        "-m",
        "judgegym",
        "judge-server",
        "--judge",
        "rubric",
        "--offline",
        "--port",
        "0",
    )
    with subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            page = browser.new_context(
                viewport={"width": 1000, "height": 1080}, color_scheme="light"
            ).new_page()
            page.goto(server.stdout.readline().split()[-1])
            page.fill("#prompt", "Why is the sky blue in the daytime?")
            page.fill(
                ".response",
                "The sky is blue in the daytime because the air scatters blue light far more than "
                "red.",
            )
            page.click("#go")
            page.wait_for_selector("#result.ok")
            save(page, DOCS / "images" / "reward_server.png")
        finally:
            server.terminate()


def evaluated(run: Path, data: Path | None) -> Path:
    """The page of a run of these data."""
    options = [f"--env.data_dir_to_save_evals={run}"]
    if data is not None:
        options += [
            "--env.eval_prompt_dataset=prompts.jsonl",
            "--env.eval_baseline_dataset=answers_gpt-4-0314.jsonl",
            "--env.model_answers=answers_gpt-3.5-turbo-0125.jsonl",
        ]
    judgegym("evaluate", "arena_hard", "--offline", *options, cwd=data)
    return run / "report.html"


@contextmanager
def chromium() -> Iterator[Any]:
    """The system's Chromium, without a window."""
    path = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def take(browser: Any, path: Path) -> None:
    """Take the pictures: head, list with a filter, opened sample, one of its calls; some on a phone and in the dark."""
    views: list[tuple[str, dict[str, int], Scheme, set[str]]] = [
        ("report", DESKTOP, "light", {"", "-list", "-sample", "-call"}),
        ("report-phone", PHONE, "light", {"-sample"}),
        ("report-dark", DESKTOP, "dark", {""}),
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
