"""`--offline` in all three verbs: no key, no network, and nothing but what the command line names."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER
from tests.command import Ended, RunFiles, Started, in_process
from tests.conformance.lab import Undisturbed
from tests.conformance.subjects import Subject
from tests.trainer import Batch, Group, training

GROUP, STEPS = 4, 2
TEMPERATURE = 0.75
END = "<|im_end|>"


FAULTS = '--faults={"429": 0.1, "500": 0.1, "drop": 0.1, "malformed": 0.05, "empty": 0.05}'
PATIENCE = "--env.retry_delay=0.01", "--env.judge_max_retries=20", "--env.max_retries=20"


@pytest.mark.slow
def test_evaluate_offline_needs_nothing_and_can_be_repeated(
    subject: Subject, tmp_path: Path
) -> None:
    """With the settings that the run recorded, and though some requests fail on the way: retries are for that."""
    first = evaluated_offline(subject, tmp_path / "run", *subject.role)
    files = RunFiles(tmp_path / "run")
    assert len(files.samples) >= 8
    assert all(math.isfinite(value) for value in files.metrics.values())
    (notice,) = files.report["config_general"]["notices"]
    assert "offline stand-in" in notice and "no benchmark result" in notice
    assert notice in first.out and str(files.path) in first.out

    recorded = f"--config={files.path / 'config.yaml'}"
    evaluated_offline(subject, tmp_path / "again", recorded, FAULTS, *PATIENCE)
    again = Undisturbed(files, Counter(), Counter())
    again.same_results(RunFiles(tmp_path / "again"), ignoring=("_requests", "_tokens"))


def evaluated_offline(subject: Subject, path: Path, *flags: str) -> Ended:
    """`evaluate --offline` in this process, with success."""
    argv = "evaluate", "--offline", *flags, f"--env.data_dir_to_save_evals={path}"
    ended = in_process(*argv, env_type=subject.env_type).successful()
    return ended


@pytest.mark.slow
def test_process_offline_writes_groups(trained: Subject, tmp_path: Path) -> None:
    ended = in_process(
        *(
            "process",
            "--offline",
            *trained.role,
            f"--env.group_size={GROUP}",
            "--env.total_steps=3",
        ),
        *(f"--env.data_path_to_save_groups={tmp_path / 'groups.jsonl'}", "--env.write_report=True"),
        env_type=trained.env_type,
    ).successful()
    groups = [json.loads(line) for line in (tmp_path / "groups.jsonl").read_bytes().splitlines()]
    assert len(groups) == 3
    for group in groups:
        whole(group)
    assert (tmp_path / "groups.html").stat().st_size > 1000
    assert "groups.html" in ended.out and "no benchmark result" in ended.out


@pytest.mark.slow
async def test_serve_offline_trains(trained: Subject, tmp_path: Path) -> None:
    """Into the real rollout API, until the trainer has had its steps."""
    batches, ended = await served_offline(trained, tmp_path)
    assert ended.code == 0, ended.said
    assert "Traceback" not in ended.said
    headline = trained.env_type.spec.training_metric
    assert re.search(rf"step \d+: {headline} -?\d.*reward_mean", ended.err), (
        "each environment shows its own number"
    )
    assert [sum(len(group["tokens"]) for group in batch) for batch in batches] == [
        4 * GROUP
    ] * STEPS
    for group in (group for batch in batches for group in batch):
        whole(group)
        assert len(set(group["scores"])) > 1, "a group without a signal is not sent"
        assert group["overrides"] is None
        assert group["generation_params"] == {"temperature": TEMPERATURE}
        assert group["env_id"] == 0
    assert left_in(tmp_path) == ["runs"]
    (run,) = (tmp_path / "runs").iterdir()
    kept = ["config.yaml", "live.jsonl", "monitor.jsonl", "run.log"]
    assert left_in(run) == kept, "the answers are of no use any more"


async def served_offline(subject: Subject, path: Path) -> tuple[list[Batch], Ended]:
    """The batches that a trainer gets, and how the process ended."""
    async with training(4 * GROUP) as trainer:
        argv = [
            *subject.role,
            f"--env.rollout_server_url={trainer.url}",
            f"--env.group_size={GROUP}",
            f"--env.total_steps={STEPS}",
            f"--env.rollout_temperature={TEMPERATURE}",
            "--env.steps_per_eval=-1",
            "--env.include_messages=True",
        ]
        with Started(str(subject.script), "serve", "--offline", *argv, cwd=path) as started:
            batches = await trainer.take(STEPS)
            return batches, await asyncio.to_thread(started.ended)


@cache
def bundled_tokenizer() -> Any:
    """The tokenizer that is used offline."""
    from transformers import AutoTokenizer  # a second, which most tests can do without

    return AutoTokenizer.from_pretrained(BUNDLED_TOKENIZER)


def whole(group: Group) -> None:
    """The lists of a group belong together, its scores are numbers, and each mask is exactly the completions."""
    tokenizer = bundled_tokenizer()
    lists = [group[name] for name in ("tokens", "masks", "inference_logprobs")]
    assert [len(values) for values in (*lists, group["scores"], group["messages"])] == [GROUP] * 5
    assert all(math.isfinite(score) for score in group["scores"])
    assert [turns[-1]["reward"] for turns in group["messages"]] == pytest.approx(group["scores"])
    shared = turns_of_all(group)  # of the row; an assistant's turn among them is no completion
    for tokens, mask, logprobs, turns in zip(*lists, group["messages"], strict=True):
        assert len(tokens) == len(mask) == len(logprobs)
        pieces = [
            [*of]
            for _, of in groupby(
                zip(tokens, mask, logprobs, strict=True), lambda each: each[1] != -100
            )
        ]
        conversation = [{name: turn[name] for name in ("role", "content")} for turn in turns]
        answers = [
            number
            for number, turn in enumerate(turns)
            if turn["role"] == "assistant" and number >= shared
        ]
        assert len(pieces) == 2 * len(answers)
        before: list[int] = []
        for answer, prompt, generated in zip(answers, pieces[::2], pieces[1::2], strict=True):
            assert all((label, logprob) == (-100, 1.0) for _, label, logprob in prompt)
            assert all(label == token and logprob < 0 for token, label, logprob in generated)
            before += [token for token, *_ in prompt]
            assert tokenizer.decode(before) == tokenizer.apply_chat_template(
                conversation[:answer], tokenize=False, add_generation_prompt=True
            )
            said = [token for token, *_ in generated]
            assert tokenizer.decode(said) == turns[answer]["content"] + END, (
                "the text that was judged, and its end"
            )
            before += said


def turns_of_all(group: Group) -> int:
    """How many turns the members of a group begin with alike."""
    for number, turns in enumerate(zip(*group["messages"], strict=False)):
        if any(turn["content"] != turns[0]["content"] for turn in turns):
            return number
    return 0


def left_in(path: Path) -> list[str]:
    """What a command left in its working directory."""
    return sorted(entry.name for entry in path.iterdir())
