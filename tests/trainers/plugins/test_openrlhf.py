"""Settings of OpenRLHF's functions, which may come from a variable as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from judgegym_trainers.openrlhf import reward_function


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fallback": 1.0}, "settings.fallback: unknown setting, did you mean fallback_score?"),
        ({"group_size": "8"}, "group_size: expected the number of samples of a prompt, found '8'"),
        ({"group_size": 0}, "group_size: expected the number of samples of a prompt, found 0"),
        ({"group_size": 2.5}, "group_size: expected the number of samples of a prompt, found 2.5"),
        ({"deadline_s": "9"}, "deadline_s: expected a number of seconds above 0"),
        ({"token": 5}, "token: expected text, found int"),
        ({"on_failure": "zero"}, "on_failure: expected leave_out or score, found 'zero'"),
        (
            {"estimator": "gae"},
            "estimator: a reward function can give a failed judge nothing but the mean of its group",
        ),
        ({"estimator": None}, "estimator: a reward function can give"),
        ({"group_size": 1}, "estimator: a reward function can give"),
        ({"group_size": None}, "estimator: a reward function can give"),
    ],
)
def test_a_setting_of_another_name_or_type_is_one_line(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        reward_function("http://127.0.0.1:1", **{"estimator": "rloo", "group_size": 4, **settings})
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize("settings", [{"estimator": "rloo", "group_size": 2}, {"on_failure": "score"}])
def test_a_failed_judge_that_is_no_score_or_is_meant_to_be_one_is_taken(settings: dict[str, Any]) -> None:
    assert callable(reward_function("http://127.0.0.1:1", **settings))
