"""Generated blocks of the pages are what the code gives now: settings, prompts, code, fields of files, verdicts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.tools import prompts, write
from docs.tools.example_code import select_names
from docs.tools.generated import BLOCK, blank_generated
from judgegym.cli.environments import built_in_modules, load_environment
from judgegym.datasets.sample import USED_BY
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.environments.command_line.arguments import make_settings_type
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.config.fields import DeclaredSetting, declared_settings, format_default
from judgegym.judges.scorers import registry
from judgegym.server.settings import RewardServerSettings
from tests.docs.blocks import name_of
from tests.docs.tables import DOCS
from tests.forking import ROOT

PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if "<!-- generated: " in page.read_text(encoding="utf-8")
]
CONSTITUTION = ROOT / "examples" / "own_environment" / "constitution_environment.py"
COMMANDS = ("score", "judge-server", "attack")
"""Commands whose blocks of settings have their name as kind."""
BLOCK_OF_CODE = "Above.\n\n<!-- generated: code {words} -->\n\n{text}<!-- end -->\n\nBelow.\n"


@pytest.fixture(autouse=True)
def _built_in_kinds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the judges in files that other pages have loaded in this process: tables show built-in kinds."""
    monkeypatch.setattr(registry, "_loaded", {})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page_has_the_blocks_that_the_code_gives(page: Path) -> None:
    markdown = page.read_text(encoding="utf-8")
    assert len(BLOCK.findall(markdown)) == markdown.count("<!-- generated: "), (
        "a block without its end"
    )
    assert write.render(markdown) == markdown, "a stale block: run `python -m docs.tools.write`"


def test_stale_block_is_written_anew_and_nothing_else() -> None:
    words = "examples/own_judge/language.py JUDGE"
    stale = BLOCK_OF_CODE.format(words=words, text="old\n")
    fresh = write.render(stale)
    assert "old" not in fresh and "JUDGE = " in fresh and write.render(fresh) == fresh
    assert blank_generated(fresh).split() == blank_generated(stale).split() == ["Above.", "Below."]
    assert fresh.count("\n") == blank_generated(fresh).count("\n")


@pytest.mark.parametrize(
    "marker", ["codes examples/own_judge/language.py", "prompt No such prompt", "settings nothing"]
)
def test_unknown_block_is_an_error(marker: str) -> None:
    with pytest.raises(ValueError, match=f"no generated block has this name: {marker}"):
        write.render(f"<!-- generated: {marker} -->\n<!-- end -->\n")


def test_every_prompt_is_on_a_page() -> None:
    words = {
        match["words"]
        for page in PAGES
        for match in BLOCK.finditer(page.read_text(encoding="utf-8"))
        if match["kind"] == "prompt"
    }
    assert words == {*prompts.MESSAGES, *prompts.FILES}
    assert "<|The Start of Assistant A's Answer|>" in prompts.prompt_block(
        "Arena-Hard: what the judge is asked"
    )


def test_every_setting_is_in_a_table_with_what_it_does() -> None:
    rows = dict(documented_settings())
    for environment in built_in_modules():
        for setting in declared_settings(
            expand_choices(make_settings_type(load_environment(environment)))
        ):
            row = rows.get(f"{environment}.{setting.name}") or rows.get(setting.name, "")
            assert has_declaration(row, setting), setting.name
    for command, settings in (("judge-server", RewardServerSettings), ("score", ScoreSettings)):
        for setting in declared_settings(expand_choices(settings), verb=USED_BY):
            assert has_declaration(rows.get(f"{command}.{setting.name}", ""), setting), setting.name
    for flag in ("faults", "away", "latency_ms"):
        assert f"offline-server.{flag}" in rows


def documented_settings() -> Iterator[tuple[str, str]]:
    """The rows of tables of settings, by name; those of one environment or command begin with its name."""
    for page in PAGES:
        for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
            if block["kind"] != "settings":
                continue
            kind, *words = block["words"].split()
            scope = {
                "own": words[:1],
                "flags": words[:1],
                **{name: [name] for name in COMMANDS},
            }.get(kind, [])
            for name, cells in re.findall(r"^\| `([^`]+)` (\|.*)$", block[0], re.MULTILINE):
                yield ".".join([*scope, name]), cells


def has_declaration(row: str, setting: DeclaredSetting) -> bool:
    """Whether a row has the default of a setting and its first words."""
    text = re.sub(r"[`\\]", "", row)
    about, default = setting.about.replace("`", "")[:60], format_default(setting.default)
    return bool(about) and about in text and default.replace("`", "") in text


def test_names_are_shown_in_the_order_of_the_file_with_decorators_and_comments() -> None:
    code = select_names(CONSTITUTION, ["PROMPT", "broken_principles"])
    assert code.startswith("@verdict_parser\ndef broken_principles(")
    assert "\n# The offline stand-in's reply" in code and code.count("\n\n\n") == 1
    ast.parse(code)


def test_method_is_shown_without_its_class() -> None:
    assert select_names(CONSTITUTION, ["ConstitutionEnv.tasks"]).startswith("def tasks(self")


def test_missing_name_is_an_error() -> None:
    with pytest.raises(
        ValueError, match=r"constitution_environment\.py defines no Env\.nothing and no no_such"
    ):
        select_names(CONSTITUTION, ["Env.nothing", "PROMPT", "no_such"])
