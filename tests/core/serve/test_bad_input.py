"""What `serve` and `process` refuse: one message, exit code 2."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER
from tests.arena import Arena
from tests.command import Ended, in_process, serving
from tests.scripted import Json, Recorded, Reply, Script, ScriptedEndpoint
from tests.serving import judging, sampling
from tests.trainer import POSTS, ScriptedServer


def api(request: Recorded, number: int) -> Reply:
    """A rollout API with a trainer that wants batches of eight; it is soon done, so that what goes on ends."""
    if request.path == "/info":
        return Reply(body={"batch_size": 8, "max_token_len": -1})
    if request.path == "/register-env":
        ids = {"env_id": 0, "wandb_name": "arena_hard_0", "checkpoint_dir": ""}
        return Reply(
            body={
                "status": "success",
                **ids,
                "starting_step": 0,
                "checkpoint_interval": -1,
                "num_steps": 10,
            }
        )
    step = 0 if number < 200 else 1000
    return Reply(
        body={"current_step": step, "queue_size": 0, "self_queue_size": 0, "env_weight": 1.0}
    )


@dataclass(frozen=True)
class Run:
    ended: Ended
    api: ScriptedEndpoint
    policy: ScriptedEndpoint
    judge: ScriptedEndpoint

    @property
    def message(self) -> str:
        """What was said, in one line."""
        return " ".join(self.ended.err.split())


def run(
    arena: Arena,
    *flags: str,
    verb: str = "serve",
    rollout_api: ScriptedServer | None = None,
    policy_says: Script | None = None,
) -> Run:
    with ExitStack() as stack:
        policy = stack.enter_context(serving(policy_says or sampling()))
        judge = stack.enter_context(serving(judging()))
        trainer = stack.enter_context(serving(rollout_api or ScriptedServer(api)))
        of_serve = (
            f"--env.rollout_server_url={trainer.base_url.removesuffix('/v1')}",
            f"--env.data_dir_to_save_evals={arena.path / f'serve-{len(list(arena.path.iterdir()))}'}",
            "--env.steps_per_eval=-1",
        )
        ended = in_process(
            verb,
            *arena.flags,
            f"--openai.base_url={policy.base_url}",
            f"--env.judge_base_url={judge.base_url}",
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            *(of_serve if verb == "serve" else ()),
            "--env.retry_delay=0",
            *flags,
        )
    return Run(ended, trainer, policy, judge)


def refused(found: Run, *words: str) -> None:
    assert found.ended.code == 2, found.ended.said
    for word in words:
        assert word in found.message
    assert "Traceback" not in found.ended.said
    assert not [request for request in found.api.requests if request.path in POSTS]


@pytest.mark.slow
@pytest.mark.parametrize("size", ["3", "16"])
def test_a_group_size_that_does_not_divide_the_batch(arena: Arena, size: str) -> None:
    found = run(arena, f"--env.group_size={size}")
    refused(found, f"--env.group_size: {size} does not divide", "batch size of 8")
    assert not found.policy.requests
    assert {request.path for request in found.api.requests} == {"/info"}, (
        "it does not even register"
    )


@pytest.mark.parametrize("weight", ["0", "-0.5"])
def test_an_inference_weight_that_breaks_the_api(arena: Arena, weight: str) -> None:
    """A weight of 0 makes the API fail for every environment."""
    found = run(arena, f"--env.inference_weight={weight}")
    refused(found, "greater than 0, got")
    assert not found.api.requests


@pytest.mark.parametrize("verb", ["serve", "process"])
def test_an_unknown_tokenizer(arena: Arena, tmp_path: Path, verb: str) -> None:
    name = tmp_path / "no-tokenizer"
    flags = "--env.token_source=retokenize", f"--env.tokenizer_name={name}", "--env.total_steps=1"
    path = f"--env.data_path_to_save_groups={tmp_path / 'groups.jsonl'}"
    found = run(arena, *flags, path, verb=verb)
    refused(found, "--env.tokenizer_name: no tokenizer", str(name))
    if verb == "serve":
        assert not found.policy.requests, "it is said before the first call"


@pytest.mark.parametrize("verb", ["serve", "process"])
def test_a_token_source_that_needs_another_server(arena: Arena, tmp_path: Path, verb: str) -> None:
    flags = "--env.token_source=token_server", "--env.total_steps=1"
    path = f"--env.data_path_to_save_groups={tmp_path / 'groups.jsonl'}"
    found = run(arena, *flags, path, verb=verb)
    refused(found, "--env.token_source: token_server needs", "--openai.server_type=vllm")
    if verb == "serve":
        assert not found.api.requests


@pytest.mark.parametrize("verb", ["serve", "process"])
def test_a_file_that_cannot_be_written(arena: Arena, tmp_path: Path, verb: str) -> None:
    (tmp_path / "file").write_text("")
    found = run(arena, f"--env.data_path_to_save_groups={tmp_path}/file/groups.jsonl", verb=verb)
    refused(found, "--env.data_path_to_save_groups")
    assert not found.policy.requests


def test_data_that_are_not_there(arena: Arena) -> None:
    found = run(arena, "--env.train_prompt_dataset=nowhere.jsonl")
    refused(found, "nowhere.jsonl: ", "no such file")
    assert not found.api.requests


@pytest.mark.parametrize("verb", ["serve", "process"])
def test_groups_of_none(arena: Arena, tmp_path: Path, verb: str) -> None:
    path = f"--env.data_path_to_save_groups={tmp_path / 'groups.jsonl'}"
    refused(
        run(arena, "--env.group_size=0", "--env.total_steps=1", path, verb=verb), "--env.group_size"
    )


def test_groups_of_one_have_no_signal(arena: Arena) -> None:
    found = run(arena, "--env.group_size=1")
    refused(found, "--env.group_size", "--env.ensure_scores_are_not_same=False")
    assert not found.api.requests


def test_something_else_at_the_rollout_apis_address(arena: Arena) -> None:
    """Such as vLLM, whose default port is the rollout API's."""
    found = run(
        arena,
        rollout_api=ScriptedServer(
            lambda request, number: Reply(status=404, body={"detail": "Not Found"})
        ),
    )
    refused(found, "--env.rollout_server_url", "404")


def test_dataset_that_somebody_writes_to_ends_the_run_and_it_leaves_the_rollout_api(
    arena: Arena,
) -> None:
    paths = list(arena.path.glob("*.jsonl"))
    unwritten = paths.copy()
    sample = sampling()

    def policy(request: Json, number: int) -> Reply:
        while unwritten:
            path = unwritten.pop()
            path.write_bytes(path.read_bytes().replace(b"uid", b"id "))
        return sample(request, number)

    found = run(arena, "--env.max_num_workers=1", policy_says=policy)
    assert found.ended.code == 2, found.ended.said
    assert any(f"{path}: " in found.message for path in paths)
    assert "file has changed" in found.message
    assert "Traceback" not in found.ended.said
    assert "/disconnect-env" in {request.path for request in found.api.requests}
