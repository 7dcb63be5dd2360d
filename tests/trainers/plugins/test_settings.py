"""Settings that cannot work are one line in every form; `scores/test_in_process.py` has those that all forms share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from judgegym_trainers import slime
from judgegym_trainers.openrlhf import reward_function
from judgegym_trainers.verl import compute_score
from judgegym_trainers.verl.rewards import ManagerSettings

URL = "http://127.0.0.1:1"


def of_verl(given: Any) -> None:
    asyncio.run(compute_score("data", "A", "B", {"question": "Why?"}, **given))


def of_manager(given: Any) -> None:
    ManagerSettings.read(given, {}).make_batcher(
        1 if given == {"judge": {"judge": "choice"}} else 2
    )


def of_slime(given: Any, *, group_rm: bool = True) -> None:
    sample = SimpleNamespace(status="completed", remove_sample=False, metadata={})
    asyncio.run(slime.reward(SimpleNamespace(judgegym=given, group_rm=group_rm), [sample]))


def of_single_slime(given: Any) -> None:
    of_slime(given, group_rm=False)


def of_openrlhf(given: Any) -> None:
    reward_function(URL, **{"estimator": "rloo", "group_size": 4, **given})


SCORE = {"on_failure": "score"}
HERE = {**SCORE, "url": URL}
WRONG: Mapping[Callable[[Any], None], list[tuple[Any, str]]] = {
    of_verl: [
        (
            {"url": URL},
            "reward_kwargs.on_failure: expected score: .*fallback_score, .*JudgeAgentLoop",
        ),
        ({"url": URL, "on_failure": "leave_out"}, "reward_kwargs.on_failure: expected score"),
        (
            {"url": URL, "on_failure": "zero"},
            "reward_kwargs.on_failure: expected leave_out or score, found 'zero'",
        ),
        (SCORE, "expected either url .*or judge"),
        (
            {**SCORE, "judge": {"judge": "no such judge"}},
            "judge.judge: .*no judge 'no such judge'",
        ),
        (
            {**SCORE, "judge": {"judge": "rubric", "judge_temprature": 0.1}},
            ".*did you mean judge_temperature",
        ),
        ({**SCORE, "judge": {"judge": "rubric", "scale_min": 5, "scale_max": 1}}, ".*scale"),
        (
            {
                **SCORE,
                "judge": {"judge_base_url": "https://j.example/v1", "judge_api_key_env": "NOT_SET"},
            },
            ".*NOT_SET",
        ),
        ({**HERE, "judge": {"judge": "rubric"}}, "expected either url"),
        ({**SCORE, "ulr": URL}, "reward_kwargs.ulr: unknown setting, did you mean url"),
        ({**HERE, "fallback_score": float("nan")}, "reward_kwargs.fallback_score: .*finite number"),
        *(
            ({**SCORE, "judge": judge}, ".*verl's reward workers.* set url")
            for judge in ({"judge": "listwise"}, {"judge": "tournament"}, {"group_size": 4})
        ),
    ],
    of_manager: [
        ({}, "reward_kwargs.url: expected one of .*judge and environment"),
        (
            {"url": URL, "judge": {"judge": "rubric"}},
            "reward_kwargs.url: expected one of .*judge and environment",
        ),
        ({"ulr": URL}, "reward_kwargs.ulr: unknown setting, did you mean url"),
        ({"group_wait_s": True}, "reward_kwargs.group_wait_s: .*number of seconds"),
        (
            {"url": URL, "on_failure": "zero"},
            ".*on_failure: expected leave_out or score, found 'zero'",
        ),
        ({"judge": {"juge": "listwise"}}, "judge.juge: unknown setting"),
        ({"judge": {"judge": "choice"}}, ".*2 or more samples .*found 1"),
        ({"environment": {"name": "arena_hard"}}, ".*environment.name: unknown setting"),
        ({"environment": {"settings": {}}}, ".*expected `environment`, .*`settings`"),
        (["url"], "reward_kwargs: expected a mapping"),
        ({"fallback_score": "0"}, "reward_kwargs.fallback_score: .*finite number"),
        ({"judge": "listwise"}, "reward_kwargs.judge: expected a mapping"),
    ],
    of_slime: [
        ({"ulr": URL}, "judgegym.ulr: unknown setting, did you mean url"),
        ({"fallback_score": "0"}, "judgegym.fallback_score: .*finite number, found '0'"),
        ({"judge": "listwise"}, "judgegym.judge: expected a mapping"),
        ({}, "--rm-url: .*such as http://127.0.0.1:8400"),
        (["url"], "judgegym: expected a mapping"),
    ],
    of_single_slime: [
        ({"judge": judge}, "judgegym.judge: .*needs --group-rm")
        for judge in ({"judge": "listwise"}, {"judge": "choice", "group_size": 2})
    ],
    of_openrlhf: [
        ({"fallback": 1.0}, "settings.fallback: unknown setting, did you mean fallback_score"),
        ({"deadline_s": "9"}, "deadline_s: .*seconds above 0"),
        ({"on_failure": "zero"}, "on_failure: expected leave_out or score, found 'zero'"),
        *(
            (
                {"group_size": size},
                f"group_size: .*number of samples .*found {size!r}",
            )
            for size in ("8", 0, 2.5)
        ),
        *(
            (
                given,
                f"estimator: .*found estimator {found}. ",
            )
            for given, found in (
                ({"estimator": "gae"}, "'gae' and group_size 4"),
                ({"estimator": None}, "None and group_size 4"),
                ({"group_size": 1}, "'rloo' and group_size 1"),
                ({"group_size": None}, "'rloo' and group_size None"),
            )
        ),
    ],
}


# Losses: verl | any | `compute_score` | refused
@pytest.mark.parametrize(
    ("form", "given", "said"),
    [(form, given, said) for form, cases in WRONG.items() for given, said in cases],
)
def test_a_setting_that_cannot_work_is_one_line(
    form: Callable[[Any], None], given: Any, said: str
) -> None:
    with pytest.raises(SettingsError, match=f"^{said}") as raised:
        form(given)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "settings", [{"estimator": "rloo", "group_size": 2}, {"on_failure": "score"}]
)
def test_a_failed_judge_that_is_no_score_or_is_meant_to_be_one_is_taken(
    settings: dict[str, Any],
) -> None:
    assert callable(reward_function(URL, **settings))
