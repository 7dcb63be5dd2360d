"""`--help`: which settings it lists, in which order, and how it describes them."""

from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import CliImplicitFlag

from judgegym.judges.config.fields import setting
from judgegym.judges.config.reading.help import render_help
from judgegym.judges.config.sources import SourcedSettings


class Model(BaseModel):
    help_group: ClassVar[str] = "model"

    rare: int = setting(1, "Count 100 % of something.")
    often: float = setting(2.0, "Weigh it.", common=True)
    kind: Literal["a", "b"] = setting(
        "a", "Choose.", group="choice", common=True, verbs=("evaluate",)
    )


class Demo(SourcedSettings):
    help_group: ClassVar[str] = "other"

    main: Model
    path: Path | None = Field(None, description="Read it.")
    key: SecretStr | None = Field(None, description="Unlock it.")
    body: dict[str, Any] = Field(default_factory=dict, description="Add it.")
    on: bool = Field(True, description="Do it.")
    quick: CliImplicitFlag[bool] = Field(False, description="Do it quickly.")


GROUPS = {
    "choice": "what to choose",
    "model": "the model",
    "other": "anything else",
    "run": "the run",
}
OF_EACH_COMMAND = [
    "--config PATH",
    "--offline",
    "--show_config all|changed",
    "--profile PATH",
    "--trace off|spans|texts",
    "--faults JSON",
]


def page(**options: Any) -> str:
    return render_help(Demo, usage="demo", about="Show.", groups=GROUPS, **options)


def flags(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.startswith("  --")]


def test_help_lists_the_most_used_settings_and_says_how_many_more_there_are() -> None:
    assert flags(page()) == ["--main.kind a|b", "--main.often NUMBER"]
    assert f"--help_all lists {6 + len(OF_EACH_COMMAND)} more settings." in page()


def test_help_all_lists_every_setting_by_group_the_most_used_first() -> None:
    everything = page(detail="all")
    assert flags(everything) == [
        "--main.kind a|b",
        "--main.often NUMBER",
        "--main.rare INT",
        "--path PATH",
        "--key KEY",
        "--body JSON",
        "--on true|false",
        "--quick",
        *OF_EACH_COMMAND,
    ]
    titles = [
        line
        for line in everything.splitlines()
        if line in {f"{title}:" for title in GROUPS.values()}
    ]
    assert titles == ["what to choose:", "the model:", "anything else:", "the run:"]
    assert "more settings" not in everything


def test_help_says_what_a_setting_does_and_its_default() -> None:
    everything = page(detail="all")
    for words in (
        "Count 100 % of something. Default: 1.",
        "Weigh it. Default: 2.",
        "Choose. Default: a.",
        "Do it.",
    ):
        assert words in everything
    assert "Do it. Default: true." in everything and "Do it quickly.\n" in everything


def test_help_leaves_out_what_the_command_does_not_use() -> None:
    assert flags(page(verb="serve")) == ["--main.often NUMBER"]


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_help_is_as_wide_as_the_terminal_up_to_what_reads_well(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setitem(Demo.model_fields, "path", Field(None, description="word " * 60))
    many = FieldInfo(
        annotation=Literal[tuple(f"choice_{number}" for number in range(20))], default="choice_0"
    )  # type: ignore[valid-type]
    monkeypatch.setitem(Demo.model_fields, "many", many)
    assert max(map(len, page(detail="all").splitlines())) <= min(int(columns), 100)


class WithText(BaseModel):
    short: str = setting("one line", "Say it.", common=True)
    long: str = setting("a rubric\nof two lines", "Judge by it.", common=True)


def test_a_default_of_several_lines_is_not_listed() -> None:
    text = render_help(WithText, usage="demo", about="Show.", groups={})
    assert "Default: one line." in text
    assert "of two lines" not in text


def test_a_command_may_choose_its_most_used_settings_and_their_order() -> None:
    most_used = ["main.often", "main.rare", "path"]
    text = page(most_used=most_used)
    assert flags(text) == ["--main.often NUMBER", "--main.rare INT", "--path PATH"]
    assert f"--help_all lists {5 + len(OF_EACH_COMMAND)} more settings." in text
    assert flags(page(most_used=["main.rare"], detail="all"))[:3] == [
        "--main.kind a|b",
        "--main.rare INT",
        "--main.often NUMBER",
    ]
