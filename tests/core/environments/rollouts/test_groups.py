"""A judged group as the rollout API takes it.

The scores of a judged group.
"""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.engine.settings import EnvConfig
from judgegym.environments.rollouts import groups
from judgegym.environments.rollouts.groups import fill_missing_scores, pack_group
from judgegym.llm import wire
from tests.core.environments.rollouts_of import PROMPT, group, rollout


def sent(
    rewards: list[float | None], *, messages: bool = False, logprobs: bool = True
) -> dict[str, Any]:
    config = EnvConfig(rollout_temperature=0.7, include_messages=messages)
    return group(rewards, [4, 6, 5][: len(rewards)], logprobs=logprobs).data(config)


def test_tokens_masks_and_logprobs() -> None:
    data = sent([1.0, 0.0, -1.0])
    assert [len(each) for each in data["tokens"]] == [7, 9, 8]
    for tokens, mask, logprobs in zip(
        data["tokens"], data["masks"], data["inference_logprobs"], strict=True
    ):
        assert tokens[:3] == list(PROMPT)
        assert mask == [-100] * 3 + tokens[3:]
        assert logprobs == [1.0] * 3 + [-each / 10 for each in tokens[3:]]
    assert data["scores"] == [1.0, 0.0, -1.0]
    assert data["generation_params"] == {"temperature": 0.7}
    assert "overrides" not in data


@pytest.mark.parametrize("rewards", [[1.0, 0.0, -1.0], [1.0, None, 0.0]])
@pytest.mark.parametrize("messages", [True, False])
def test_packed_group_is_the_same_json_as_made_at_once(
    rewards: list[float | None], messages: bool
) -> None:
    data = sent(rewards, messages=messages)
    assert pack_group(data) == wire.dumps(data)
    odd = {
        **data,
        "messages": [[{"role": "user", "content": 'a lone \ud800, a "quote", \u2028 and 字'}]],
        "none": None,
    }
    assert pack_group(odd) == wire.dumps(odd)


async def test_large_group_is_packed_in_a_thread_to_the_same_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged, config = group([1.0, 0.0]), EnvConfig()
    in_the_loop = await judged.pack(config)
    threads: list[str] = []

    def noted(data: Any) -> bytes:
        threads.append(threading.current_thread().name)
        return pack_group(data)

    monkeypatch.setattr(groups, "pack_group", noted)
    monkeypatch.setattr(groups, "_TOKENS_FOR_A_THREAD", 0)
    assert await judged.pack(config) == in_the_loop
    assert threads != [threading.main_thread().name]


def test_one_rollout_without_logprobs_takes_them_from_the_group() -> None:
    """The trainer pads what is missing with the prompt's 1.0, and trains on it."""
    judged = group([1.0, 0.0])
    mixed = replace(judged, rollouts=(judged.rollouts[0], rollout(4, logprobs=False)))
    assert "inference_logprobs" not in mixed.data(EnvConfig())


def test_messages_say_what_was_judged_and_why() -> None:
    first, failed, _ = sent([1.0, None, 0.0], messages=True)["messages"]
    assert first[:2] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
    ]
    assert first[2] == {
        "role": "assistant",
        "content": "an answer",
        "reward": 1.0,
        "judgment": {"status": "ok", "label": "label", "explanation": "because"},
    }
    assert (failed[2]["reward"], failed[2]["judgment"]["status"]) == (0.5, "judge_failed")


REWARDS = st.floats(-1, 1)


@given(rewards=st.lists(st.none() | REWARDS, min_size=2, max_size=8))
def test_a_missing_score_is_the_mean_of_the_others(rewards: list[float | None]) -> None:
    there = [each for each in rewards if each is not None]
    scores = fill_missing_scores(rewards)
    if len(there) < 2:
        assert scores is None
        return
    assert scores is not None
    for value, reward in zip(scores, rewards, strict=True):
        assert math.isfinite(value)
        assert value == (pytest.approx(math.fsum(there) / len(there)) if reward is None else reward)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_goes_nowhere(bad: float) -> None:
    with pytest.raises(ValueError, match=f"finite number: .*{bad}"):
        fill_missing_scores([0.5, bad, None])


@pytest.mark.parametrize(
    ("rewards", "equal"),
    [
        ([1.0, 1.0, 1.0], True),
        ([1.0, 1.0, None], True),
        ([1.0, 1.0, -1.0], False),
        ([1.0, -1.0, None], False),
    ],
)
def test_whether_there_is_a_signal(rewards: list[float | None], equal: bool) -> None:
    assert group(rewards).has_equal_scores is equal


def test_the_longest_sequence_has_its_prompt() -> None:
    assert group([1.0, 0.0, 0.5], [4, 9, 5]).longest == len(PROMPT) + 9
