"""Whatever is wrong with the settings is one error, which names the setting, its source and what was expected."""

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, SecretStr
from pydantic_settings import NoDecode

from judgegym.judges.config.sources import SourcedSettings, load
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError

KEY = "sk-this-is-secret"


class Inner(BaseModel):
    api_key: SecretStr | None = None


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    models: list[Inner] = []
    number: int = 1
    share: float = Field(0.5, ge=0, le=1)
    kind: Literal["plain", "fancy"] = "plain"
    flag: bool = False
    body: dict[str, JsonValue] = {}
    api_key: SecretStr | None = None


def from_json(value: object) -> object:
    return wire.loads(value) if isinstance(value, str) else value


class Demo(SourcedSettings):
    main: Model
    limit: int | None = None
    table: Annotated[dict[str, int], NoDecode, BeforeValidator(from_json)] = {}


def nested(depth: int) -> str:
    """An object in objects."""
    return '{"a":' * depth + "1" + "}" * depth


def message_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    flags: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
    yaml: str | bytes | None = None,
) -> str:
    """What the user is told of settings that cannot be loaded."""
    for name, value in (env or {}).items():
        monkeypatch.setenv(name, value)
    if yaml is not None:
        path = tmp_path / "settings.yaml"
        path.write_bytes(yaml if isinstance(yaml, bytes) else yaml.encode())
        flags = (*flags, f"--config={path}")
    with pytest.raises(SettingsError) as raised:
        load(Demo, flags, prog="demo")
    return str(raised.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"flags": ("--main.nubmer=2",)},
            ["--main.nubmer", "unknown", "did you mean --main.number?"],
        ),
        (
            {"flags": ("--main.nubmer", "2")},
            ["--main.nubmer", "unknown", "did you mean --main.number?"],
        ),
        ({"flags": ("--qqqq=2",)}, ["--qqqq", "unknown", "--help"]),
        ({"flags": ("number=2",)}, ["number=2", "--name=value"]),
        ({"flags": ("--limit",)}, ["command line", "--limit", "expected one argument"]),
        (
            {"yaml": "main: {nubmer: 2}"},
            ["main.nubmer", "settings.yaml", "unknown", "did you mean --main.number?"],
        ),
        (
            {"env": {"JUDGEGYM_MAIN__NUBMER": "2"}},
            [
                "main.nubmer",
                "environment variable JUDGEGYM_MAIN__NUBMER",
                "unknown",
                "did you mean --main.number?",
            ],
        ),
        ({"env": {"JUDGEGYM_MIAN__NUMBER": "2"}}, ["JUDGEGYM_MIAN__NUMBER", "unknown"]),
        (
            {"env": {"JUDGEGYM_ENV__LIMIT": "2"}},
            ["environment variable JUDGEGYM_ENV__LIMIT", "unknown", "did you mean JUDGEGYM_LIMIT?"],
        ),
    ],
)
def test_an_unknown_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], words: list[str]
) -> None:
    message = message_of(tmp_path, monkeypatch, **given)
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"flags": ("--main.number=two",)}, ["--main.number", "command line", "integer", "'two'"]),
        (
            {"flags": ("--main.share=2",)},
            ["--main.share", "command line", "less than or equal to 1", "'2'"],
        ),
        ({"flags": ("--main.share=nan",)}, ["--main.share", "command line", "'nan'"]),
        (
            {"yaml": "main: {kind: odd}"},
            ["--main.kind", "settings.yaml", "'plain' or 'fancy'", "'odd'"],
        ),
        ({"yaml": "main: {body: [1]}"}, ["--main.body", "settings.yaml", "dictionary", "'[1]'"]),
        (
            {"yaml": "main: 5"},
            ["--main", "settings.yaml", "--main.NAME=VALUE", "type int"],
        ),
        (
            {"yaml": "main: 5", "flags": ("--main.number=1",)},
            ["--main", "settings.yaml", "--main.NAME=VALUE", "type int"],
        ),
        (
            {"yaml": "main: [1]", "env": {"JUDGEGYM_MAIN__NUMBER": "1"}},
            ["--main", "settings.yaml", "--main.NAME=VALUE", "type list"],
        ),
        ({"flags": (f"--main={nested(20_000)}",)}, ["command line", "nested too deeply"]),
        (
            {"flags": (f"--main.body={nested(200)}",)},
            ["--main", "command line", "nested more than 90 deep"],
        ),
        (
            {"env": {"JUDGEGYM_MAIN__BODY": nested(20_000)}},
            ["JUDGEGYM_MAIN__BODY", "nested too deeply"],
        ),
        ({"yaml": "main: {body: &x [*x]}"}, ["settings.yaml", "*x", "part of itself"]),
        ({"yaml": b"main: {number: \xff}"}, ["settings.yaml", "not UTF-8"]),
        (
            {"yaml": "main: {number: 1}\nmain: {share: 0.1}"},
            ["settings.yaml", "'main' occurs twice"],
        ),
        (
            {"env": {"JUDGEGYM_MAIN__NUMBER": "two"}},
            ["--main.number", "environment variable JUDGEGYM_MAIN__NUMBER", "integer", "'two'"],
        ),
        ({"flags": ('--main.body={"a": 1',)}, ["main.body", "command line"]),
        ({"flags": ("--table", "a=1")}, ["--table (command line): expected JSON, got 'a=1'"]),
        (
            {"env": {"JUDGEGYM_MAIN__BODY": '{"a": 1'}},
            ["environment variable JUDGEGYM_MAIN__BODY: expected JSON; "],
        ),
    ],
)
def test_a_wrong_value_names_setting_source_and_what_was_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], words: list[str]
) -> None:
    message = message_of(tmp_path, monkeypatch, **given)
    assert [word for word in words if word not in message] == []
    assert "\n" not in message


def test_all_wrong_values_are_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = message_of(
        tmp_path, monkeypatch, flags=("--main.number=x",), yaml="main: {share: y, odd: 1}\nlimit: z"
    )
    lines = message.splitlines()
    assert len(lines) == 4
    for name in ("main.number", "main.share", "main.odd", "limit"):
        assert sum(name in line for line in lines) == 1


@pytest.mark.parametrize(
    ("yaml", "words"),
    [
        ("- main\n- limit\n", ["list", "sections"]),
        ("5", ["int", "sections"]),
        ("main: {number: 2", ["a YAML file"]),
        ("a: !!python/object:os.system {}", ["a YAML file"]),
        (b"main: \x00", ["a YAML file"]),
        ("1: x", ["1", "unknown"]),
        ("main: {2: x}", ["main", "2"]),
    ],
)
def test_a_file_that_holds_no_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, yaml: str | bytes, words: list[str]
) -> None:
    message = message_of(tmp_path, monkeypatch, yaml=yaml)
    assert [word for word in ["settings.yaml", *words] if word not in message] == []
    assert "\n" not in message


@pytest.mark.parametrize("variable", [False, True])
def test_a_file_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: bool
) -> None:
    missing = str(tmp_path / "nothing.yaml")
    given: dict[str, Any] = (
        {"env": {"JUDGEGYM_CONFIG": missing}} if variable else {"flags": (f"--config={missing}",)}
    )
    message = message_of(tmp_path, monkeypatch, **given)
    assert "--config" in message and missing in message and "No such file" in message
    assert "directory" in message_of(tmp_path, monkeypatch, flags=(f"--config={tmp_path}",))


@pytest.mark.parametrize(
    "given",
    [
        {"yaml": f"main: {{api_key: [{KEY}]}}"},
        {"yaml": f"main: {{apikey: {KEY}}}"},
        {"flags": (f"--main.apikey={KEY}",)},
        {"flags": (f"--main.number=http://user:{KEY}@judge.example/v1",)},
        {"yaml": f"main: {{models: {{api_key: {KEY}}}}}"},
        {"yaml": f"main: {{models: [[api_key, {KEY}]]}}"},
        {"yaml": f"main: {{number: {{api_key: {KEY}}}}}"},
        {"flags": (f'--main.models=[{{"api_key": "{KEY}"',)},
        {"env": {"JUDGEGYM_MAIN__MODELS": f'[{{"api_key": "{KEY}"'}},
        {"env": {"JUDGEGYM_MAIN__APIKEY": KEY}},
        {"env": {"JUDGEGYM_MAIN": f'{{"api_key": "{KEY}"'}},
    ],
)
def test_a_secret_is_in_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    message = message_of(tmp_path, monkeypatch, **given)
    assert "main" in message.lower() and KEY not in message


def test_a_variable_of_a_file_with_lines_of_windows_has_its_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUDGEGYM_MAIN__FLAG", "true\r")
    monkeypatch.setenv("JUDGEGYM_MAIN__BODY", '{"a": 1}\r\n')
    main = load(Demo, [], prog="demo").settings.main
    assert (main.flag, main.body) == (True, {"a": 1})
