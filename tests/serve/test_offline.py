"""`serve --offline` into the real rollout API, with a trainer, all as processes."""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from environments.settings import BUNDLED_TOKENIZER
from tests.command import SCRIPT, Ended, Started
from tests.trainer import Batch, Group, training

BATCH, STEPS, GROUP = 16, 3, 4
LONGEST = 125
"""Tokens of the longest answer, which the stand-in counts in words and marks."""

TOKENIZER: Any = AutoTokenizer.from_pretrained(BUNDLED_TOKENIZER)


@dataclass(frozen=True)
class Run:
    batches: list[Batch]
    ended: Ended
    left: list[str]

    @property
    def groups(self) -> list[Group]:
        return [group for batch in self.batches for group in batch]


async def serve_offline(cwd: Path) -> tuple[list[Batch], Ended]:
    flags = {
        "env.group_size": GROUP,
        "env.total_steps": STEPS,
        "env.steps_per_eval": -1,
        "env.include_messages": True,
        "env.rollout_temperature": 0.75,
        "env.train_max_tokens": LONGEST,
    }
    async with training(BATCH) as trainer:
        argv = [f"--{name}={value}" for name, value in {**flags, "env.rollout_server_url": trainer.url}.items()]
        with Started(str(SCRIPT), "serve", "--offline", *argv, cwd=cwd) as started:
            batches = await trainer.take(STEPS)
            ended = await asyncio.to_thread(started.ended)
    return batches, ended


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("offline")
    batches, ended = asyncio.run(serve_offline(path))
    return Run(batches, ended, [each.name for each in path.iterdir()])


def test_it_ends_by_itself_when_the_trainer_has_its_steps(run: Run) -> None:
    assert run.ended.code == 0, run.ended.said
    assert re.search(r"step \d: winrate 0\.\d+, reward_mean", run.ended.err)
    assert "Traceback" not in run.ended.said
    assert not run.left, "nothing is left in the working directory"


def test_batches_are_whole_and_fit_together(run: Run) -> None:
    assert len(run.batches) == STEPS
    for batch in run.batches:
        assert sum(len(group["tokens"]) for group in batch) == BATCH
    for group in run.groups:
        lists = [group[name] for name in ("tokens", "masks", "inference_logprobs")]
        assert [len(each) for each in (*lists, group["scores"], group["messages"])] == [GROUP] * 5
        for tokens, mask, logprobs in zip(*lists, strict=True):
            assert len(tokens) == len(mask) == len(logprobs)
        assert group["generation_params"] == {"temperature": 0.75}
        assert group["env_id"] == 0
        assert group["group_overrides"] is group["advantages"] is None


def test_scores_are_finite_and_have_a_signal(run: Run) -> None:
    for group in run.groups:
        assert all(math.isfinite(score) and -1 <= score <= 1 for score in group["scores"])
        assert len(set(group["scores"])) > 1
        assert [turns[-1]["reward"] for turns in group["messages"]] == group["scores"]


def test_each_mask_is_exactly_the_completion(run: Run) -> None:
    """The text that was judged, and the token that ends it if and only if the model stopped by itself."""
    ends = []
    for group in run.groups:
        for tokens, mask, logprobs, turns in zip(
            group["tokens"], group["masks"], group["inference_logprobs"], group["messages"], strict=True
        ):
            generated = [token for token in mask if token != -100]
            start = len(mask) - len(generated)
            assert mask == [-100] * start + tokens[start:]
            assert logprobs[:start] == [1.0] * start
            assert all(each < 0 for each in logprobs[start:])
            conversation = [{name: turn[name] for name in ("role", "content")} for turn in turns[:-1]]
            assert TOKENIZER.decode(tokens[:start]) == TOKENIZER.apply_chat_template(
                conversation, tokenize=False, add_generation_prompt=True
            )
            text = turns[-1]["content"]
            has_longest = len(re.findall(r"\w+|[^\w\s]", text)) == LONGEST
            cut_off = TOKENIZER.decode(generated) == text
            assert cut_off or TOKENIZER.decode(generated) == f"{text}<|im_end|>"
            assert cut_off == has_longest or text.endswith("."), "only whole answers end with a full stop, as a rule"
            ends.append(cut_off)
    assert len(set(ends)) == 2, "some stopped by themselves, and some were cut off"
