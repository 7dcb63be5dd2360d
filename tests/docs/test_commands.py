"""The pages' commands and Python run as they stand, page by page; those that do not say by themselves why."""

from __future__ import annotations

import ast
import importlib
import json
import sys
from pathlib import Path

import pytest
import yaml

from judgegym.cli.commands import find_command
from judgegym.cli.environments import load_environment
from judgegym.datasets.score.command import add_data_flag
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.environments.command_line.program import VERBS
from judgegym.judges.config.sources import load
from judgegym.server.settings import RewardServerSettings, add_preset
from tests.command import in_process
from tests.docs.blocks import PAGES, Block, Command, blocks, name_of
from tests.docs.reasons import why_not_run, words_of_judgegym
from tests.docs.running import Step, reader, steps_of
from tests.forking import ROOT

KEYS = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "OPENROUTER_API_KEY": "k"}
WITH_STEPS = [page for page in PAGES if page.name != "CHANGELOG.md" and steps_of(page)]


@pytest.mark.parametrize("page", WITH_STEPS, ids=name_of)
def test_the_page_runs_in_order(page: Path, tmp_path: Path) -> None:
    with reader(tmp_path) as reading:
        steps = iter(steps_of(page))
        for block in blocks(page):
            if block.title:
                reading.save(block)
            elif not block.language:
                reading.check_printed(block)
            elif block.language == "bash":
                reading.printed.clear()
            for _ in (
                block.commands() if block.language == "bash" else [block] if _shown(block) else []
            ):
                step = next(steps)
                if step.reason:
                    print(
                        f"{name_of(page)}:{step.what.line}: not run ({step.reason}): {step.shown}"
                    )
                elif isinstance(step.what, Command):
                    reading.run(step.what)
                else:
                    reading.run_python(step.what)


def _shown(block: Block) -> bool:
    return block.language == "python" and not block.title


def test_the_pages_have_commands_of_all_kinds() -> None:
    found = {
        words[0]
        for page in WITH_STEPS
        for step in steps_of(page)
        if (words := _judgegym(step)) and not step.reason
    }
    assert found >= {
        "evaluate",
        "serve",
        "process",
        "report",
        "compare",
        "view",
        "judge-server",
        "score",
    }


@pytest.mark.parametrize("line", ["judgegm list", "make tests", "python examples/no_such.py"])
def test_a_mistake_is_no_reason(line: str) -> None:
    (command,) = Block("bash", "", line, 0).commands()
    with pytest.raises(AssertionError):
        why_not_run(command, (), ())


@pytest.mark.parametrize("page", WITH_STEPS, ids=name_of)
def test_what_is_not_run_is_understood(page: Path) -> None:
    for step in steps_of(page):
        words = _judgegym(step)
        if step.reason and words:
            _understand(*words)


def _judgegym(step: Step) -> list[str]:
    return (words_of_judgegym(step.what) or []) if isinstance(step.what, Command) else []


def _understand(name: str, *rest: str) -> None:
    if name in VERBS:
        env_type = load_environment(rest[0])
        ended = in_process(name, *rest[1:], "--show_config", env_type=env_type, env=KEYS)
        assert ended.code == 0, ended.err
    elif name == "judge-server":
        load(RewardServerSettings, rest, prog=name, reshape=add_preset)
    elif name == "score":
        load(ScoreSettings, add_data_flag(rest), prog=name)
    else:
        command = find_command(name)
        assert command is not None, name
        command.load().make_parser(name).parse_args(rest)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_is_code(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            compile(block.text, name_of(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        elif block.language == "yaml":
            assert yaml.safe_load(block.text) is not None, f"line {block.line}"
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "toml" and sys.version_info >= (3, 11):
            importlib.import_module("tomllib").loads(block.text)


def test_python_of_the_page_on_groups_prints_that_the_orders_agree(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (python,) = [
        block.text
        for block in blocks(ROOT / "docs" / "judges" / "group_judging.md")
        if block.language == "python"
    ]
    exec(compile(python, "docs/judges/group_judging.md", "exec"), {})
    said = capsys.readouterr().out
    assert "6 of 6 pairs" in said and "Agreement(agreed=6, pairs=6)" in said
