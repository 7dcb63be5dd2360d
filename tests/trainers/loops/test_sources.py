"""Settings that a plugin reads from a variable."""

from __future__ import annotations

import pytest

from judgegym.llm.errors import SettingsError
from judgegym_trainers.scores.sources import read_settings_variable


@pytest.mark.parametrize("missing", ["", "{}"])
def test_settings_are_those_of_the_variable(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setenv("SETTINGS_OF_A_PLUGIN", '{"url": "http://127.0.0.1:1", "batch": 3}')
    assert read_settings_variable("SETTINGS_OF_A_PLUGIN", missing=missing) == {
        "url": "http://127.0.0.1:1",
        "batch": 3,
    }


def test_a_variable_that_is_not_set_is_what_it_is_said_to_be() -> None:
    assert read_settings_variable("SETTINGS_OF_NO_PLUGIN", missing='{"a": 1}') == {"a": 1}


@pytest.mark.parametrize("given", [None, "", "url=x", "[1]"])
def test_what_is_no_object_is_refused_by_the_name_of_the_variable(
    monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    if given is not None:
        monkeypatch.setenv("SETTINGS_OF_A_PLUGIN", given)
    with pytest.raises(SettingsError, match=r"^SETTINGS_OF_A_PLUGIN: .*JSON object"):
        read_settings_variable("SETTINGS_OF_A_PLUGIN")
