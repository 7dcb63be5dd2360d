"""Where a setting's value comes from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, JsonValue, SecretStr

from judgegym.judges.config.fields import setting
from judgegym.judges.config.sources import (
    MASK,
    LoadedSettings,
    SettingsSource,
    SourcedSettings,
    load,
)

KEY = "sk-this-is-secret"


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int = 1
    share: float = 0.5
    names: list[str] = []
    body: dict[str, JsonValue] = {}
    api_key: SecretStr | None = None
    url: str = "http://localhost/v1"


class Demo(SourcedSettings):
    main: Model
    other: Model = Model(number=7)
    limit: int | None = setting(None, verbs=("evaluate",))


Load = Callable[..., LoadedSettings[Demo]]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads settings from flags, environment variables and the text of a YAML file."""

    def read(
        *flags: str, env: dict[str, str] | None = None, yaml: str | None = None, **options: Any
    ) -> LoadedSettings[Demo]:
        for name, value in (env or {}).items():
            monkeypatch.setenv(name, value)
        arguments = list(flags)
        if yaml is not None:
            path = tmp_path / "settings.yaml"
            path.write_text(yaml, encoding="utf-8")
            arguments.append(f"--config={path}")
        return load(Demo, arguments, prog="demo", **options)

    return read


def test_defaults(settings: Load) -> None:
    loaded = settings()
    assert loaded.settings.main.model_dump() == Model().model_dump()
    assert (loaded.settings.limit, loaded.settings.config, loaded.origins) == (None, None, {})
    assert {line.source for line in loaded.lines()} == {"default"}


@pytest.mark.parametrize("flags", [[], ["--other.share=0.25"]])
def test_the_defaults_that_a_section_was_declared_with(settings: Load, flags: list[str]) -> None:
    assert settings(*flags).settings.other.number == 7


FLAG = "--main.number=2"
ENV = {"JUDGEGYM_MAIN__NUMBER": "3"}
YAML = "main: {number: 4}"
VARIABLE = "environment variable JUDGEGYM_MAIN__NUMBER"


@pytest.mark.parametrize(
    ("flags", "env", "yaml", "preset", "number", "source"),
    [
        ([FLAG], ENV, YAML, True, 2, "command line"),
        ([], ENV, YAML, True, 3, VARIABLE),
        ([], {}, YAML, True, 4, "settings.yaml"),
        ([], {}, None, True, 5, "preset"),
        ([], {}, None, False, 1, "default"),
    ],
)
def test_strongest_source_wins_and_is_named(
    settings: Load,
    flags: list[str],
    env: dict[str, str],
    yaml: str | None,
    preset: bool,
    number: int,
    source: str,
) -> None:
    def add_preset(sources: list[SettingsSource]) -> list[SettingsSource]:
        return [*sources, SettingsSource("preset", {"main.number": 5})] if preset else sources

    loaded = settings(*flags, env=env, yaml=yaml, reshape=add_preset)
    assert loaded.settings.main.number == number
    (line,) = [line for line in loaded.lines() if line.name == "main.number"]
    assert line.value == str(number)
    assert line.source.rpartition("/")[2] == source


def test_sources_of_one_section_add_up(settings: Load) -> None:
    env = {"JUDGEGYM_MAIN__SHARE": "0.25"}
    loaded = settings(
        "--main.number=2", "--limit", "9", env=env, yaml="main: {names: [a, b]}\nother: {share: 1}"
    )
    main = loaded.settings.main
    assert (main.number, main.share, main.names) == (2, 0.25, ["a", "b"])
    assert (loaded.settings.limit, loaded.settings.other.share) == (9, 1.0)
    assert set(loaded.origins) == {
        "config",
        "limit",
        "main.number",
        "main.share",
        "main.names",
        "other.share",
    }


def test_the_file_may_be_named_by_the_environment(settings: Load, tmp_path: Path) -> None:
    for name, number in (("one", 11), ("two", 12)):
        (tmp_path / name).write_text(f"main: {{number: {number}}}")
    env = {"JUDGEGYM_CONFIG": str(tmp_path / "one")}
    assert settings(env=env).settings.main.number == 11
    assert settings(f"--config={tmp_path / 'two'}", env=env).settings.main.number == 12


@pytest.mark.parametrize("yaml", ["", "# nothing but a comment\n", "{}", "---\n"])
def test_an_empty_file_says_nothing(settings: Load, yaml: str) -> None:
    assert set(settings(yaml=yaml).origins) == {"config"}


def test_lines_that_are_changed_are_those_whose_value_is_not_the_default(settings: Load) -> None:
    loaded = settings(
        "--main.number=2", "--main.share=0.5", "--limit=9", yaml="other: {number: 7, share: 0.25}"
    )
    shown = {
        line.name: (line.value, line.source.rpartition("/")[2])
        for line in loaded.lines(show="changed")
    }
    del shown["config"]
    assert shown == {
        "main.number": ("2", "command line"),
        "other.share": ("0.25", "settings.yaml"),
        "limit": ("9", "command line"),
    }


def test_lines_are_of_the_settings_that_the_command_uses(settings: Load) -> None:
    assert "limit" in {line.name for line in settings(verb="evaluate").lines()}
    assert "limit" not in {line.name for line in settings(verb="serve").lines()}


# -----------------------------------------------------------------------------------------------------------
# secrets


@pytest.mark.parametrize(
    "given",
    [
        {"flags": [f"--main.api_key={KEY}"]},
        {"yaml": f"main: {{api_key: {KEY}}}"},
        {"env": {"JUDGEGYM_MAIN__API_KEY": KEY}},
    ],
)
def test_secrets_are_masked(settings: Load, given: dict[str, Any]) -> None:
    loaded = settings(*given.pop("flags", []), **given)
    assert (
        loaded.settings.main.api_key is not None
        and loaded.settings.main.api_key.get_secret_value() == KEY
    )
    values = {line.name: line.value for line in loaded.lines()}
    assert (values["main.api_key"], values["other.api_key"]) == (MASK, "None")
    assert KEY not in str(loaded.lines()) + repr(loaded)


def test_credentials_of_a_url_are_masked(settings: Load) -> None:
    loaded = settings("--main.url=http://user:password@judge.example/v1")
    (line,) = [line for line in loaded.lines() if line.name == "main.url"]
    assert "judge.example" in line.value and "password" not in line.value
