"""A run with an evaluation beside it, as a process, and what of it is in Weights & Biases' own file.

The evaluation of step 1 is held until the trainer has had two more batches: rollouts go on
meanwhile, and its metrics come when training's are ahead.
"""

from __future__ import annotations

import asyncio
import json
import math
import struct
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER, EnvConfig
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.environments.training.metrics import TrainingLog
from judgegym.monitoring.alarms import Alarm
from tests.arena import Arena, answering, uid_of
from tests.command import SCRIPT, Ended, RunFiles, Started, write_lines
from tests.scripted import Json, Reply, ScriptedEndpoint
from tests.serving import judging, sampling
from tests.trainer import training, until

EVAL_ROWS = [f"row-{number}" for number in range(100, 103)]
STEPS = 4
OFFLINE = {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}


@pytest.fixture(autouse=True)
def _own_service() -> Iterator[None]:
    """End wandb's service after a test that has started it in this process: it keeps the first one's folder."""
    yield
    if "wandb" in sys.modules:
        sys.modules["wandb"].teardown()


def records(path: Path) -> Iterator[Any]:
    """The records of a `.wandb` file: LevelDB's log format behind 7 bytes, with protobuf messages in it."""
    from wandb.proto.wandb_internal_pb2 import Record  # late: half a second

    data, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # no header fits before the next block
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        if at + 7 + length > len(data):  # still being written
            return
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            record = Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


def history(directory: Path) -> dict[int, dict[str, Any]]:
    """What an offline run logged, by step."""
    (path,) = (directory / "wandb").glob("offline-run-*/*.wandb")
    logged: dict[int, dict[str, Any]] = {}
    for record in records(path):
        if record.WhichOneof("record_type") == "history":
            values = {
                "/".join(item.nested_key) or item.key: json.loads(item.value_json)
                for item in record.history.item
            }
            logged.setdefault(values["_step"], {}).update(values)
    return logged


@dataclass(frozen=True)
class Run:
    ended: Ended
    evaluations: dict[int, RunFiles]
    history: dict[int, dict[str, Any]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("wandb")
    ended = asyncio.run(serve_and_evaluate(path))
    steps = (path / "run").glob("step-*")
    evaluations = {int(each.name.removeprefix("step-")): RunFiles(each) for each in steps}
    return Run(ended, evaluations, history(path))


async def serve_and_evaluate(path: Path) -> Ended:
    arena = Arena(path).rows(8)
    prompts = [
        {"uid": uid, "prompt": f"Question of {uid}", "category": "math"} for uid in EVAL_ROWS
    ]
    baseline = [{"uid": uid, "answer": f"BASELINE answer to {uid}"} for uid in EVAL_ROWS]
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def policy(request: Json, number: int) -> Reply | str:
        if uid_of(request) not in EVAL_ROWS:
            return sampling()(request, number)
        assert "n" not in request
        begun.set()
        await go_on.wait()
        return answering(request, number) + ": ANSWER 0 of request 0"

    async with AsyncExitStack() as stack:
        trainer = await stack.enter_async_context(training(8))
        answers = await stack.enter_async_context(ScriptedEndpoint(policy))
        judge = await stack.enter_async_context(ScriptedEndpoint(judging()))
        argv = [
            *arena.flags,
            f"--env.eval_prompt_dataset={write_lines(path / 'eval.jsonl', prompts)}",
            f"--env.eval_baseline_dataset={write_lines(path / 'eval_baseline.jsonl', baseline)}",
            f"--env.rollout_server_url={trainer.url}",
            f"--openai.base_url={answers.base_url}",
            f"--env.judge_base_url={judge.base_url}",
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            f"--env.data_dir_to_save_evals={path / 'run'}",
            "--env.steps_per_eval=1",
            f"--env.total_steps={STEPS}",
            "--env.max_batches_offpolicy=1",
            "--env.use_wandb=True",
        ]
        with Started(str(SCRIPT), "serve", *argv, cwd=path, env=OFFLINE) as started:
            directory = path / "run" / "step-1"
            await trainer.take()
            await begun.wait()
            await trainer.take(2)
            await answers.arrived(len(EVAL_ROWS) + 2 * STEPS)
            assert directory.is_dir()
            assert not (directory / "metrics.json").exists(), "it is held"
            go_on.set()
            await until((directory / "metrics.json").exists, "the evaluation ends")
            await trainer.take()
            return await asyncio.to_thread(started.ended)


def test_the_evaluation_has_a_directory_of_its_own(run: Run) -> None:
    assert run.ended.code == 0, run.ended.said
    files = run.evaluations[1]
    assert [sample["uid"] for sample in files.samples] == EVAL_ROWS
    assert files.metrics["overall_winrate"] == 1.0
    assert files.metrics["total_samples"] == 3


def test_what_came_due_meanwhile_is_evaluated_once_and_so_is_the_last_step(run: Run) -> None:
    """Steps 2 and 3 came while the evaluation of step 1 was held: the later one is evaluated."""
    assert sorted(run.evaluations) == [1, 3, STEPS]
    assert all(files.metrics["total_samples"] == 3 for files in run.evaluations.values())


def test_training_is_logged_by_step(run: Run) -> None:
    train = {step: row for step, row in sorted(run.history.items()) if "train/winrate" in row}
    assert max(train) == STEPS
    for row in train.values():
        expected = {
            "train/winrate": 0.25,
            "train/win_rate": 0.25,
            "train/loss_rate": 0.75,
            "train/tie_rate": 0.0,
            "train/position_agreement_rate": 1.0,
            "train/judge_error_rate": 0.0,
            "train/groups_without_signal_rate": 0.0,
            "train/reward_mean": -0.5,
            "config/thinking_mode": 0.0,
        }
        assert {name: row[name] for name in expected} == expected
        assert row["train/completion_lengths"] == 6.5
        assert -1 <= row["train/reward_length_correlation"] < 0, "the first is the shortest"
        assert row["train/judge_latency_mean_s"] > 0
        assert row["train/total_judgments"] % 4 == 0
        own = {name: value for name, value in row.items() if name.startswith(("train/", "config/"))}
        assert all(math.isfinite(value) for name, value in own.items() if "/rollouts/" not in name)
    judged = [row["train/total_judgments"] for row in train.values()]
    assert judged == sorted(judged)
    assert train[1]["train/rollouts/nrows"] == 2, "one of each group"


def test_evaluations_are_logged_though_training_is_ahead(run: Run) -> None:
    """Under the step that training has come to, with the step that was evaluated beside them."""
    evaluated = {
        row["eval/step"]: step for step, row in run.history.items() if "eval/overall_winrate" in row
    }
    assert set(evaluated) <= set(run.evaluations)
    assert evaluated[STEPS] == STEPS
    assert any(step < STEPS for step in evaluated)
    assert all(
        row["eval/overall_winrate"] == 1.0 for row in run.history.values() if "eval/step" in row
    )


@pytest.mark.slow
async def test_an_alarm_is_an_alert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)
    log = TrainingLog(EnvConfig(use_wandb=True), Retokenizer(str(BUNDLED_TOKENIZER)), headlines=())
    await log.open("a-run", ("", ""), {})
    log.send_alarm(Alarm("gap", 7, 5, "something was seen", "Do something."))
    await log.close()
    (path,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")

    def alerts() -> list[Any]:
        return [each.alert for each in records(path) if each.WhichOneof("record_type") == "alert"]

    await until(lambda: len(alerts()) == 1, "wandb's own process has written the alert")
    (alert,) = alerts()
    assert (alert.title, alert.text[:20]) == ("ALARM gap", "ALARM gap at step 7:")


def test_serve_and_each_of_its_evaluations_have_logs_of_their_own(run: Run) -> None:
    first = next(iter(run.evaluations.values()))
    of_serve = (first.path.parent / "run.log").read_text(encoding="utf-8")
    assert "INFO step " in of_serve
    assert "eval/overall_winrate" not in of_serve
    for step, files in run.evaluations.items():
        log = (files.path / "run.log").read_text(encoding="utf-8")
        assert "begun: serve arena_hard, judgegym " in log.splitlines()[0]
        assert f"INFO eval/overall_winrate: {files.metrics['overall_winrate']:.4f}" in log
        assert log.endswith("INFO ended\n"), step
        assert "INFO step " not in log
    assert len({files.path for files in run.evaluations.values()}) == len(run.evaluations) > 0
    assert of_serve.endswith("INFO ended\n")
