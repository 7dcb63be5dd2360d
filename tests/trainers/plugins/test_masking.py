"""Forms that leave a failed judgment out, on the few names of OpenRLHF and verl that our modules use.

The trainers' own loss code takes what these forms give in `tests/trainers/loops/*/test_loss.py`.
"""

from __future__ import annotations

import asyncio
import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from judgegym_trainers.openrlhf import agent_executor
from judgegym_trainers.scores.results import MAX_FAILURES, NoRewardError
from tests.core.server.running import running
from tests.trainers.judges import good_or_bad as judge
from tests.trainers.plugins.packages import present

TEXTS = ["good", "FAIL", "bad"]
PROMPT = "Why? "


class Bytes:
    """A tokenizer of bytes."""

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        return bytes(ids).decode()


class SingleTurnAgentExecutor:
    """OpenRLHF's: the response is the label."""

    def __init__(self, remote_rm_url: object) -> None:
        assert remote_rm_url is None

    async def execute(self, prompt: str, label: Any, *_: object, **__: object) -> dict[str, Any]:
        tokens = [*prompt.encode(), *label["response"].encode()]
        return {
            "observation_tokens": tokens,
            "action_ranges": [(len(prompt), len(tokens))],
            "truncated": True,
        }


async def executed(form: type, texts: list[str]) -> list[dict[str, Any]]:
    executor = form()

    async def one(text: str) -> dict[str, Any]:
        done: dict[str, Any] = await executor.execute(
            PROMPT, {"response": text}, None, 99, Bytes(), None
        )
        return done

    return list(await asyncio.gather(*map(one, texts)))


OPENRLHF = {"openrlhf.utils.agent": {"SingleTurnAgentExecutor": SingleTurnAgentExecutor}}


@pytest.mark.parametrize("on_failure", ["leave_out", "score"])
async def test_openrlhfs_agent_masks_what_has_no_score(
    on_failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(judge=judge) as server:
        with present(monkeypatch, OPENRLHF):
            # Labels tell the groups apart, so that each text is a group here.
            form = agent_executor(
                server.url, group_size=1, on_failure=on_failure, fallback_score=0.25
            )
        done = await executed(form, TEXTS)
    assert (
        [each["reward"] for each in done] == [each["scores"] for each in done] == [1.0, 0.25, 0.0]
    )
    assert [each["extra_logs"]["judge_failed"] for each in done] == [0.0, 1.0, 0.0]
    is_masked = on_failure == "leave_out"
    assert [bool(each["action_ranges"]) for each in done] == [True, not is_masked, True]
    assert [each["truncated"] for each in done] == [True, not is_masked, True]


@pytest.mark.slow
async def test_openrlhfs_agent_ends_a_run_whose_judge_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(judge="I cannot say.") as server:
        with present(monkeypatch, OPENRLHF):
            form = agent_executor(server.url, group_size=1)
        with pytest.raises(NoRewardError, match=f"failed for {MAX_FAILURES} samples"):
            await executed(form, [f"text {number}" for number in range(MAX_FAILURES)])


def test_openrlhfs_agent_needs_the_size_of_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    with present(monkeypatch, OPENRLHF):
        with pytest.raises(SettingsError, match="group_size: expected --rollout"):
            agent_executor("http://127.0.0.1:1")
        assert agent_executor("http://127.0.0.1:1", on_failure="score").__name__ == "AgentExecutor"


class SingleTurnAgentLoop:
    """verl's: answers with a text."""

    def __init__(self, config: Any, text: str) -> None:
        self.config, self.tokenizer, self.text = config, Bytes(), text

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        ids = list(self.text.encode())
        return SimpleNamespace(
            response_ids=ids, response_mask=[1] * len(ids), reward_score=None, extra_fields={}
        )


class Config(dict[str, Any]):
    """A configuration as OmegaConf's, read by attribute and by `get`."""

    def __getattr__(self, name: str) -> Any:
        value = self[name]
        return Config(value) if isinstance(value, dict) else value


LOOP = "judgegym_trainers.verl.loop"
VERL = {
    "verl.experimental.agent_loop.agent_loop": {"AgentLoopOutput": object},
    "verl.experimental.agent_loop.single_turn_agent_loop": {
        "SingleTurnAgentLoop": SingleTurnAgentLoop
    },
}


def config(url: str, size: int, *, estimator: str = "gae", **kwargs: object) -> Config:
    rollout = {"n": size, "val_kwargs": {"n": 1}, "agent": {"num_workers": 1}}
    return Config(
        reward={
            "custom_reward_function": {"reward_kwargs": {"url": url, **kwargs}},
            "num_workers": 1,
        },
        actor_rollout_ref={"rollout": rollout},
        algorithm={"adv_estimator": estimator},
    )


@pytest.mark.parametrize("on_failure", ["leave_out", "score"])
async def test_verls_loop_masks_what_has_no_score(
    on_failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with present(monkeypatch, VERL, LOOP):
        loop = importlib.import_module(LOOP)
        async with running(judge=judge) as server:
            given = config(server.url, len(TEXTS), on_failure=on_failure)
            row = {
                "raw_prompt": [{"role": "user", "content": PROMPT}],
                "uid": "one",
                "extra_info": {},
            }
            runs = (loop.JudgeAgentLoop(given, text).run({}, **row) for text in TEXTS)
            outputs = await asyncio.gather(*runs)
    assert [each.reward_score for each in outputs] == [1.0, 0.5, 0.0]  # the mean of the others
    infos = [each.extra_fields["reward_extra_info"] for each in outputs]
    assert [info["judge_failed"] for info in infos] == [0.0, 1.0, 0.0]
    assert [info["judge_status"] for info in infos] == ["ok", "unparsable", "ok"]
    expected = [0, 0, 0, 0] if on_failure == "leave_out" else [1, 1, 1, 1]
    assert [each.response_mask for each in outputs] == [[1] * 4, expected, [1] * 3]
