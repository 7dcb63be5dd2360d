"""What an actor of `--ray` gives back, in one process: its results and calls travel as Ray sends them, pickled."""

from __future__ import annotations

import asyncio
import gzip
import json
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from judgegym.datasets.cluster.actors import JudgeActor
from judgegym.datasets.cluster.pool import check_on_ray, select_judge_settings
from judgegym.datasets.rows.task import DatasetJudgeSettings
from judgegym.datasets.score.clients import open_clients
from judgegym.datasets.score.command import add_data_flag
from judgegym.datasets.score.run import ScoreRun
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.runs.ledger import DiskRowLedger
from judgegym.judges.config.sources import load
from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.llm.errors import EndpointError, FailureKind, SettingsError
from judgegym.llm.ledger import current_component, current_row
from judgegym.llm.types import ChatSettings, Endpoint
from judgegym.llm.usage import Usage
from tests.command import write_lines
from tests.core.datasets.scoring import rated, read_rows, samples_of
from tests.scripted import Json, Reply, Script, ScriptedEndpoint

ROWS = [{"prompt": f"Question {n}", "response": f"{n % 5 + 1} points"} for n in range(12)]


class InOneProcess:
    """Stands for the actors."""

    waiting = None

    def __init__(self, actor: JudgeActor) -> None:
        self.actor = pickle.loads(pickle.dumps((actor._settings, actor._identity)))
        self.actor = JudgeActor(*self.actor)

    async def __call__(self, judge_task: JudgeTask) -> list[ResponseJudgment]:
        row = current_row()
        assert isinstance(row, DiskRowLedger)
        sent = pickle.loads(pickle.dumps((judge_task, row.recorded_answers(), current_component())))
        judged = await asyncio.create_task(self.actor.score(*sent))
        results, calls = pickle.loads(pickle.dumps(judged))
        await calls.record(row)
        return list(results)


async def judge(
    judge: ScriptedEndpoint, data: Path, out: Path, *words: str, elsewhere: bool
) -> None:
    given = [
        f"--data={data}",
        f"--out={out}",
        f"--judge_base_url={judge.base_url}",
        "--judge_max_retries=0",
        *words,
    ]
    loaded = load(ScoreSettings, [*given, "--write_report=False"], prog="judgegym score")
    settings = loaded.settings
    async with open_clients(loaded, None) as clients:
        run = ScoreRun(settings, str(data), out, clients)
        with terminal.ProgressDisplay("score", "responses") as display:
            actors = InOneProcess(
                JudgeActor(select_judge_settings(settings, clients.judge.settings), "")
            )
            await run.run(display, actors if elsewhere else None)


def calls_of(out: Path) -> Sequence[Json]:
    lines = gzip.decompress((out.with_suffix(".run") / "calls.jsonl.gz").read_bytes()).splitlines()
    return [line["call"] for line in map(json.loads, lines) if "call" in line]


def failing(words: str) -> Script:
    scripted = rated(lambda response: int(response.split()[0]))

    def answer(request: Json, number: int) -> Reply | str:
        text = scripted(request, number)
        assert isinstance(text, str)
        return (
            Reply(status=400, body={"error": {"message": "no"}}) if words in str(request) else text
        )

    return answer


@pytest.mark.slow
async def test_a_run_elsewhere_is_the_same_run(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", ROWS)
    async with ScriptedEndpoint(failing("Question 7")) as endpoint:
        for elsewhere in (False, True):
            await judge(endpoint, data, tmp_path / f"{elsewhere}.jsonl", elsewhere=elsewhere)
    here, there = tmp_path / "False.jsonl", tmp_path / "True.jsonl"
    assert there.read_bytes() == here.read_bytes()
    assert read_rows(there)[7]["judge/status"] == "judge_failed"
    assert len(samples_of(there)) == len(samples_of(here)) == len(ROWS) - 1
    facts = [sorted((call["row"], call["key"], call["part"], call["verdict_at"]) for call in calls_of(out)) for out in
             (here, there)]  # fmt: skip
    assert facts[0] == facts[1]


@pytest.mark.slow
async def test_what_the_ledger_holds_is_not_asked_again(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "data.jsonl", ROWS)
    words = ("--judge=aspect", "--aspects=coherence", "--strictness=2")

    def answer(request: Json, number: int) -> Reply | str:
        is_second = number > len(ROWS) and number <= 2 * len(ROWS)
        return (
            Reply(status=400, body={"error": {"message": "no"}})
            if is_second
            else '{"verdict": 1}\nYES'
        )

    async with ScriptedEndpoint(answer) as endpoint:
        await judge(endpoint, data, tmp_path / "scored.jsonl", *words, elsewhere=True)
        first = len(endpoint.requests)
        await judge(endpoint, data, tmp_path / "scored.jsonl", *words, "--resume", elsewhere=True)
        again = len(endpoint.requests) - first
        await judge(endpoint, data, tmp_path / "other.jsonl", *words, elsewhere=True)
        whole = len(endpoint.requests) - first - again
    assert again < whole


def test_an_error_of_an_endpoint_travels_as_it_is() -> None:
    error = EndpointError(
        FailureKind.BUSY,
        endpoint="http://judge",
        answer="later",
        status=429,
        attempts=3,
        retry_after=2.0,
    )
    error.usage = Usage(7, 2)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.attempts, copy.usage, copy.retry_after) == (
        str(error),
        3,
        Usage(7, 2),
        2.0,
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["d.jsonl", "--ray"], ["--data=d.jsonl", "--ray=local"]),
        (["--ray", "--out=x"], ["--ray=local", "--out=x"]),
        (["--ray", "auto"], ["--ray", "auto"]),
    ],
)
def test_the_flag_without_an_address_is_local(
    words: Sequence[str], expected: Sequence[str]
) -> None:
    assert add_data_flag(words) == expected


def test_a_stand_in_is_not_at_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judgegym.datasets.cluster.pool.require", lambda extra: None)
    with pytest.raises(SettingsError, match="expected --ray local"):
        check_on_ray("auto", 2, ScoreSettings(), is_offline=True, has_budget=False)
    with pytest.raises(SettingsError, match="leave out --ray"):
        check_on_ray("auto", 2, ScoreSettings(), is_offline=False, has_budget=True)


def test_actors_ask_a_stand_in_by_its_own_name() -> None:
    asked = ChatSettings(
        (Endpoint("http://127.0.0.1:9/v1", "offline-judge", None),), identity="--offline"
    )
    alone = select_judge_settings(DatasetJudgeSettings(), asked)
    assert (alone.judge_base_url, alone.judge_model_name) == (
        "http://127.0.0.1:9/v1",
        "offline-judge",
    )
