"""Settings of OpenRLHF's functions, which may come from a variable as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from judgegym.integrations.openrlhf import reward_function
from judges.llm.errors import SettingsError


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fallback": 1.0}, "settings.fallback: unknown setting, did you mean fallback_score?"),
        ({"group_size": "8"}, "group_size: expected the number of samples of a prompt, found '8'"),
        ({"group_size": 0}, "group_size: expected the number of samples of a prompt, found 0"),
        ({"group_size": 2.5}, "group_size: expected the number of samples of a prompt, found 2.5"),
        ({"deadline_s": "9"}, "deadline_s: expected a number of seconds above 0"),
        ({"token": 5}, "token: expected text, found int"),
    ],
)
def test_a_setting_of_another_name_or_type_is_one_line(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        reward_function("http://127.0.0.1:1", **settings)
    assert str(raised.value).startswith(said)
