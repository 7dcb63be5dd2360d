"""The documents: their Python runs, their links lead somewhere.

Their commands: `handbook/`; metrics, rows, prompts and files of runs: `docs/`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import judgegym

ROOT = Path(judgegym.__file__).resolve().parents[1]
FOLDERS = ("docs", "judges", "environments", "eval_environments", "examples")
PAGES = [*sorted(ROOT.glob("*.md")), *(path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.md")))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_python_of_the_page_on_groups_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    (python,) = blocks(ROOT / "docs" / "group_judging.md", "python")
    exec(compile(python, "docs/group_judging.md", "exec"), {})
    said = capsys.readouterr().out
    assert "the orders agree on 6 of 6 pairs" in said and "Agreement(agreed=6, pairs=6)" in said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(((?!https?:)[^)]+)\)", text):
        name, _, heading = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), target
        if heading and path.suffix == ".md":  # names in code: `handbook/test_shown.py`
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in [re.sub(r"[^\w\- ]", "", each).lower().replace(" ", "-") for each in headings], target
