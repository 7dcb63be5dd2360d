"""RemovedSetting settings: each line of the table, in each source and each command that had the setting."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from judgegym.datasets.score.settings import ScoreSettings
from judgegym.environments.command_line.arguments import make_settings_type
from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.config.fields import find_section
from judgegym.judges.config.one_line_parser import OneLineParser
from judgegym.judges.config.removed import (
    REMOVED,
    REMOVED_FROM_JUDGES,
    RemovedSetting,
    find_removed_setting,
)
from judgegym.judges.config.sources import load, settings_from_keywords
from judgegym.llm.errors import SettingsError
from judgegym.server.settings import RewardServerSettings
from judgegym_trials.attacks.settings import AttackSettings

COMMANDS: dict[str, type[Any]] = {
    "serve": expand_choices(make_settings_type(PromptsEnv)),
    "score": ScoreSettings,
    "judge-server": RewardServerSettings,
    "attack": AttackSettings,
}
ALL = (*REMOVED, *REMOVED_FROM_JUDGES)


class Place(NamedTuple):
    """A removed setting in a command: its dotted name there."""

    setting: RemovedSetting
    command: str
    path: str


def places(model: type[BaseModel], setting: RemovedSetting, prefix: str = "") -> Iterator[str]:
    """The dotted names under which settings had a setting."""
    if find_removed_setting(model, setting.name) is setting:
        yield prefix + setting.name
    for name in model.model_fields:
        section = find_section(model, name)
        if section is not None:
            yield from places(section, setting, f"{prefix}{name}.")


PLACES = [
    pytest.param(Place(setting, command, path), id=f"{command} {path}")
    for setting in ALL
    for command, model in COMMANDS.items()
    for path in places(model, setting)
]


def other_value(constant: Any) -> Any:
    if isinstance(constant, bool):
        return not constant
    if isinstance(constant, int | float):
        return constant + 7
    return (
        {"other": 1}
        if isinstance(constant, dict)
        else ["other"]
        if isinstance(constant, list)
        else "7"
    )


def text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


Source = Callable[[str, Any, pytest.MonkeyPatch], list[str]]


def from_flag(path: str, value: Any, patch: pytest.MonkeyPatch) -> list[str]:
    return [f"--{path}={text(value)}"]


def from_two_words(path: str, value: Any, patch: pytest.MonkeyPatch) -> list[str]:
    return [f"--{path}", text(value)]


def from_variable(path: str, value: Any, patch: pytest.MonkeyPatch) -> list[str]:
    patch.setenv(f"JUDGEGYM_{path.replace('.', '__').upper()}", text(value))
    return []


def from_yaml(path: str, value: Any, patch: pytest.MonkeyPatch) -> list[str]:
    for name in reversed(path.split(".")):
        value = {name: value}
    Path("old.yaml").write_text("# old\n" + json.dumps(value))
    return ["--config=old.yaml"]


SOURCES: dict[str, tuple[Source, str]] = {
    "flag": (from_flag, "command line"),
    "two words": (from_two_words, "command line"),
    "variable": (from_variable, "environment variable JUDGEGYM_"),
    "file": (from_yaml, "old.yaml, line 2"),
}


@cache
def usual(command: str) -> Any:
    """The settings of a command without any source."""
    return load(COMMANDS[command], [], prog=command).settings.model_dump(exclude={"config"})


@pytest.mark.parametrize("place", PLACES)
def test_a_removed_setting_is_dropped_at_its_constant_and_refused_at_another_value(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    model = COMMANDS[place.command]
    with monkeypatch.context() as patch:
        words = [
            word
            for give, _ in SOURCES.values()
            for word in give(place.path, place.setting.constant, patch)
        ]
        loaded = load(model, words, prog=place.command)
    assert loaded.settings.model_dump(exclude={"config"}) == usual(place.command)
    for give, origin in SOURCES.values():
        with monkeypatch.context() as patch:
            words = give(place.path, other_value(place.setting.constant), patch)
            with pytest.raises(SettingsError) as refused:
                load(model, words, prog=place.command)
        message = str(refused.value)
        assert message.startswith(f"--{place.path} ({origin}"), message
        assert place.setting.advice in message


MOOD = RemovedSetting("JudgeSettings", "judge_mood", "calm", "leave it out")


@pytest.fixture
def mood(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that every judge had, with a text as its constant."""
    monkeypatch.setattr("judgegym.judges.config.removed.REMOVED_FROM_JUDGES", [MOOD])


@pytest.mark.parametrize(
    ("flag", "path"),
    [
        (
            '--env.judge=composite --env.reward={"style": {"judge": "rubric", "judge_mood": "%s"}}',
            "env.reward.style.",
        ),
        ('--env.judge=jury --env.judges={"a": {"judge_mood": "%s"}, "b": {}}', "env.judges.a."),
        ('--env.judge=cascade --env.cascade=[{}, {"judge_mood": "%s"}]', "env.cascade.1."),
        ('--env.gold_judge={"judge": "rubric", "judge_mood": "%s"}', "env.gold_judge."),
    ],
)
def test_a_part_a_member_and_a_gold_judge(flag: str, path: str, mood: None) -> None:
    def loaded(value: str) -> Any:
        words = [f"--{word}" for word in f" {flag % value}".split(" --")[1:]]
        return load(COMMANDS["serve"], words, prog="serve").settings.env

    with pytest.raises(
        SettingsError, match=rf"^--{path}judge_mood \(command line\): .*leave it out"
    ):
        loaded("cross")
    assert "judge_mood" not in loaded("calm").model_dump_json()


def test_a_mount_and_keyword_arguments(mood: None) -> None:
    mount = '--mounts={"safety": {"judge": "rubric", "judge_mood": "%s"}}'
    with pytest.raises(SettingsError, match=r"^--mounts\.safety\.judge_mood \(command line\)"):
        load(RewardServerSettings, [mount % "cross"], prog="judge-server")
    kept = load(RewardServerSettings, [mount % "calm"], prog="judge-server").settings
    assert kept.mounts == {"safety": {"judge": "rubric"}}
    with pytest.raises(SettingsError, match=r"^judge\.judge_mood: .*leave it out"):
        settings_from_keywords(RewardServerSettings, {"judge_mood": "cross"}, prefix="judge.")
    assert settings_from_keywords(RewardServerSettings, {"judge_mood": "calm"}).judge == "rubric"


def test_a_switch_without_a_value_and_its_opposite(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = RemovedSetting("ScoreRunSettings", "loud", False, "leave it out")
    monkeypatch.setattr("judgegym.judges.config.removed.REMOVED", [gone])
    for words in (
        ["--loud", "--limit=2"],
        ["--loud", "true", "--limit=2"],
        ["--limit=2", "--loud"],
    ):
        with pytest.raises(SettingsError, match=r"^--loud \(command line\)"):
            load(ScoreSettings, words, prog="score")
    for words in (
        ["--no-loud", "--limit=2"],
        ["--loud", "false", "--limit=2"],
        ["--loud=0", "--limit=2"],
    ):
        assert load(ScoreSettings, words, prog="score").settings.limit == 2


def test_a_merged_setting_is_dropped_where_the_new_one_says_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_in_force(section: Any, settings: Any, value: Any) -> bool:
        return bool(section.limit == int(value))

    merged = RemovedSetting(
        "ScoreRunSettings", "most", None, "use --limit", is_in_force=is_in_force
    )
    monkeypatch.setattr("judgegym.judges.config.removed.REMOVED", [merged])
    assert load(ScoreSettings, ["--most=7", "--limit=7"], prog="score").settings.limit == 7
    with pytest.raises(SettingsError, match=r"^--most \(command line\): .*use --limit"):
        load(ScoreSettings, ["--most=7", "--limit=8"], prog="score")


def test_a_flag_of_a_small_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = RemovedSetting("label", "format", "jsonl", "write JSONL")
    monkeypatch.setattr("judgegym.judges.config.removed.REMOVED", [gone])
    parser = OneLineParser("judgegym label", "Label rows.")
    parser.add_argument("--out")
    assert parser.parse_args(["--format", "jsonl", "--out=a"]).out == "a"
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--format=other", "--out=a"])
    assert ended.value.code == 2
    assert (
        "judgegym label: --format (command line): this setting was removed"
        in capsys.readouterr().err
    )
