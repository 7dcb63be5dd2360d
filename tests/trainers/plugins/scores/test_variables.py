"""The environment variables of trainers' functions beside those of settings, which refuse what they do not know."""

from __future__ import annotations

import re

import pytest

from judgegym.environments.command_line.arguments import load_settings
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.judges.config.reading.readers import ENV_PREFIX, READ_ELSEWHERE
from judgegym.llm.errors import SettingsError
from tests.command import ROOT

_CONSTANT = re.compile(rf'= "({ENV_PREFIX}[A-Z_]+)"')


def test_every_variable_of_an_integration_is_known_to_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modules = (ROOT / "judgegym_trainers").rglob("*.py")
    assert {
        name for path in modules for name in _CONSTANT.findall(path.read_text())
    } <= READ_ELSEWHERE
    for name in READ_ELSEWHERE:
        monkeypatch.setenv(name, "{}")
    assert load_settings(RubricAbsoluteEnv, ["--offline"], verb="serve").settings.offline


def test_another_variable_is_refused_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGEGYM_SLIME", "{}")
    with pytest.raises(SettingsError, match="JUDGEGYM_SLIME: unknown setting"):
        load_settings(RubricAbsoluteEnv, ["--offline"], verb="serve")
