"""What verl's reward manager reads: its settings, and a sample with the group that it belongs to."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from judgegym.llm.errors import SettingsError
from judgegym_trainers.verl.rewards import (
    ManagerSettings,
    VerlSample,
    make_actor_score,
    read_sample,
)


class Words:
    """A tokenizer of numbers."""

    def decode(self, ids: Any, *, skip_special_tokens: bool) -> str:
        return " ".join(map(str, ids))


class Batch(list[Any]):
    """A batch of verl's: slices are batches."""

    meta_info: dict[str, object] = {}

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return Batch(found) if isinstance(place, slice) else found


def read(
    *, is_environment: bool = False, meta: dict[str, object] | None = None, **fields: Any
) -> VerlSample:
    """A sample with the response `7 8`, padded, and the prompt `1 2`."""
    batch = {
        "prompts": np.array([1, 2]),
        "responses": np.array([7, 8, 0]),
        "attention_mask": np.array([1, 1, 1, 1, 0]),
    }
    data = Batch([SimpleNamespace(batch=batch, non_tensor_batch={"prompt_len": 2, **fields})])
    data.meta_info = meta or {}
    return read_sample(data, Words(), is_environment=is_environment)


def test_the_policys_prompt_is_judged_unless_the_row_has_a_question() -> None:
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}]
    assert read(raw_prompt=np.array(messages)).row.shared["prompt"] == messages
    assert read(raw_prompt=messages, extra_info={"question": "Why?"}).row.shared["prompt"] == "Why?"
    assert read().row.shared["prompt"] == "1 2"


def test_the_response_ends_where_verl_says() -> None:
    assert read().row.response == "7 8"
    assert (
        read(response_len=1).row.response == "7"
    )  # one of several outputs, which are padded together


def test_fields_of_the_row_reach_the_judge() -> None:
    sample = read(
        uid="u",
        reward_model={"ground_truth": np.int64(7)},
        extra_info={"rubric": "R", "context": np.array(["c"])},
    )
    assert sample.row.shared == {"prompt": "1 2", "rubric": "R", "context": ["c"], "reference": "7"}
    wrong = read(uid="u", extra_info={"aspects": 5})
    assert "aspects: expected names" in wrong.row.error


def test_the_group_is_verls_uid_or_else_the_row() -> None:
    assert (read(uid="u").group, read(uid="u").has_uid) == ("u", True)
    one, other = (
        read(raw_prompt=[{"role": "user", "content": "Q"}], reward_model={"ground_truth": t})
        for t in "ab"
    )
    assert one.group != other.group
    assert not one.has_uid


def test_samples_of_a_validation_are_known_by_their_split_or_by_verl() -> None:
    splits = {"train": False, "test": True, None: False, "validation": True}
    assert {split: read(extra_info={"split": split}).is_validation for split in splits} == splits
    assert read(meta={"validate": True}).is_validation


def test_a_sample_of_an_environment_names_its_row() -> None:
    assert read(is_environment=True, uid="u", extra_info={"uid": "row 3"}).row.shared == {
        "uid": "row 3"
    }
    assert read(is_environment=True, uid="u").row.shared == {"uid": None}


ROUTER = {
    "reward_router_address": "10.0.0.1:80",
    "reward_model_tokenizer": SimpleNamespace(name_or_path="org/model"),
}


def test_a_judge_without_an_endpoint_is_the_deployed_model() -> None:
    settings = ManagerSettings.read({"judge": {"judge": "listwise"}}, ROUTER)
    assert settings.judge == {
        "judge": "listwise",
        "judge_base_url": "http://10.0.0.1:80/v1",
        "judge_model_name": "org/model",
    }
    other = {"judge": "listwise", "judge_base_url": "http://h/v1"}
    assert ManagerSettings.read({"judge": other}, ROUTER).judge == other
    named = ManagerSettings.read({"judge": {"judge_model_name": "m"}}, ROUTER).judge
    assert named is not None and named["judge_model_name"] == "m"
    assert ManagerSettings.read({"url": "http://h"}, ROUTER).judge is None
    assert ManagerSettings.read({"judge": other}, {}).judge == other


@pytest.mark.parametrize(
    ("given", "compares"),
    [
        ({"url": "http://h"}, False),
        ({"url": "http://h", "together": True}, True),
        ({"judge": {"judge": "rubric"}}, False),
        ({"judge": {"judge": "choice"}}, True),
        ({"judge": {"judge": "listwise"}, "together": False}, False),
    ],
)
def test_judges_that_compare_are_given_whole_groups(given: Any, compares: bool) -> None:
    assert ManagerSettings.read(given, {}).compares is compares


def test_reward_workers_share_an_actor_only_with_equal_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where settings are not shown, since they may have a key."""
    names: list[str] = []

    class Remote:
        def options(self, *, name: str, **further: object) -> Remote:
            names.append(name)
            return self

        def remote(self, *arguments: object) -> None:
            pass

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(remote=lambda actor: Remote()))
    arena = {"environment": "arena_hard", "settings": {"judge_api_key": "first"}}
    given: list[dict[str, object]] = [
        {"environment": arena},
        {"environment": arena},
        {"environment": {**arena, "settings": {"judge_api_key": "second"}}},
        {"judge": {"judge": "rubric", "judge_base_url": "http://a/v1", "judge_api_key": "first"}},
        {"judge": {"judge": "rubric", "judge_base_url": "http://a/v1", "judge_api_key": "second"}},
        {"url": "http://h", "token": "first"},
        {"url": "http://h", "token": "second"},
    ]
    for each in given:
        make_actor_score(ManagerSettings.read(each, {}), 4)
    assert names[0] == names[1]
    assert len(set(names)) == len(given) - 1


@pytest.mark.parametrize(
    ("algorithm", "size", "on_failure", "is_refused"),
    [
        *(({"adv_estimator": name}, 4, "leave_out", False) for name in ("grpo", "rloo", "gpg")),
        *(
            ({"adv_estimator": name}, 4, "leave_out", True)
            for name in ("gae", "reinforce_plus_plus", "remax", "of_mine")
        ),
        (
            {"adv_estimator": "grpo"},
            1,
            "leave_out",
            True,
        ),  # verl subtracts 0 from the reward of a group of one
        ({}, 4, "leave_out", True),
        ({"adv_estimator": "gae"}, 1, "score", False),
    ],
)
def test_an_estimator_that_trains_the_mean_as_a_reward_is_refused(
    algorithm: dict[str, Any], size: int, on_failure: str, is_refused: bool
) -> None:
    settings = ManagerSettings.read({"url": "http://h", "on_failure": on_failure}, {})
    if not is_refused:
        settings.check_estimator(algorithm, size)
        return
    with pytest.raises(
        SettingsError,
        match=r"algorithm\.adv_estimator: .*JudgeAgentLoop",
    ):
        settings.check_estimator(algorithm, size)
