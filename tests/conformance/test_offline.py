"""`--offline` in all three verbs: no key, no network, and nothing but what the command line names."""

from __future__ import annotations

import asyncio
import json
import math
import re
from pathlib import Path

import pytest

from tests.command import Ended, RunFiles, Started, in_process
from tests.conformance.lab import Lab, Undisturbed
from tests.conformance.subjects import Subject
from tests.trainer import Batch, Group, training

GROUP, STEPS = 4, 2


def test_evaluate_offline_gives_what_working_endpoints_give(lab: Lab, undisturbed: Undisturbed) -> None:
    """Though some requests fail on the way: that is what retries are for."""
    faults = '--faults={"429": 0.1, "500": 0.1, "drop": 0.1, "malformed": 0.05, "empty": 0.05}'
    ended = in_process(
        *("evaluate", "--offline", faults, *lab.data("evaluate"), *lab.subject.role, *lab.subject.flags),
        *("--env.retry_delay=0.01", "--env.judge_max_retries=20", "--env.max_retries=20"),
        f"--env.data_dir_to_save_evals={lab.files().path}",
        env_type=lab.subject.env_type,
    )
    assert ended.code == 0, ended.said
    undisturbed.same_results(lab.files(), ignoring=("_requests", "_tokens"))
    (notice,) = lab.files().report["config_general"]["notices"]
    assert "offline stand-in" in notice and "no benchmark result" in notice
    assert notice in ended.out
    assert lab.policy.endpoint.requests == lab.judge.endpoint.requests == []


def test_evaluate_offline_has_samples_and_settings_to_repeat_it_with(subject: Subject, tmp_path: Path) -> None:
    ended = in_process(
        *("evaluate", "--offline", *subject.role, f"--env.data_dir_to_save_evals={tmp_path / 'run'}"),
        env_type=subject.env_type,
    )
    assert ended.code == 0, ended.said
    files = RunFiles(tmp_path / "run")
    assert len(files.samples) >= 8
    assert files.failures == []
    assert all(math.isfinite(value) for value in files.metrics.values())
    assert str(files.path) in ended.out
    again = in_process(
        *("evaluate", f"--config={files.path / 'config.yaml'}", f"--env.data_dir_to_save_evals={tmp_path / 'again'}"),
        env_type=subject.env_type,
    )
    assert again.code == 0, again.said
    assert RunFiles(tmp_path / "again").without_run() == files.without_run()


def test_process_offline_writes_groups(subject: Subject, tmp_path: Path) -> None:
    ended = in_process(
        *("process", "--offline", *subject.role, f"--env.group_size={GROUP}", "--env.total_steps=3"),
        f"--env.data_path_to_save_groups={tmp_path / 'groups.jsonl'}",
        env_type=subject.env_type,
    )
    assert ended.code == 0, ended.said
    groups = [json.loads(line) for line in (tmp_path / "groups.jsonl").read_bytes().splitlines()]
    assert len(groups) == 3
    for group in groups:
        whole(group)
    assert (tmp_path / "groups.html").stat().st_size > 1000
    assert "groups.html" in ended.out and "no benchmark result" in ended.out


async def test_serve_offline_trains(subject: Subject, tmp_path: Path) -> None:
    """Into the real rollout API, until the trainer has had its steps."""
    batches, ended = await served_offline(subject, tmp_path)
    assert ended.code == 0, ended.said
    assert "Traceback" not in ended.said
    assert re.search(r"step \d+: .*reward_mean", ended.err)
    assert [sum(len(group["tokens"]) for group in batch) for batch in batches] == [4 * GROUP] * STEPS
    for group in (group for batch in batches for group in batch):
        whole(group)
        assert len(set(group["scores"])) > 1, "a group without a signal is not sent"
        assert group["overrides"] is None
    assert left_in(tmp_path) == []


async def served_offline(subject: Subject, path: Path) -> tuple[list[Batch], Ended]:
    """The batches that a trainer gets, and how the process ended."""
    async with training(4 * GROUP) as trainer:
        argv = [
            *subject.role,
            f"--env.rollout_server_url={trainer.url}",
            f"--env.group_size={GROUP}",
            f"--env.total_steps={STEPS}",
            "--env.steps_per_eval=-1",
            "--env.include_messages=True",
        ]
        with Started(str(subject.script), "serve", "--offline", *argv, cwd=path) as started:
            batches = await trainer.take(STEPS)
            return batches, await asyncio.to_thread(started.ended)


def whole(group: Group) -> None:
    """The lists of a group belong together, and its scores are numbers."""
    lists = [group[name] for name in ("tokens", "masks", "inference_logprobs")]
    assert [len(values) for values in (*lists, group["scores"], group["messages"])] == [GROUP] * 5
    for tokens, mask, logprobs in zip(*lists, strict=True):
        assert len(tokens) == len(mask) == len(logprobs)
    assert all(math.isfinite(score) for score in group["scores"])
    assert [turns[-1]["reward"] for turns in group["messages"]] == pytest.approx(group["scores"])


def left_in(path: Path) -> list[str]:
    """What a command left in its working directory."""
    return [entry.name for entry in path.iterdir()]
