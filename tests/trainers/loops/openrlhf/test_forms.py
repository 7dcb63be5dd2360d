"""The reward function and the agent in OpenRLHF's own executors, compared with the judge asked directly."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.core.server.running import running
from tests.scripted import Json
from tests.trainers.loops import trainers
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.groups import ANSWERS, QUESTIONS, asked_directly, failed_among, with_means
from tests.trainers.loops.offline import OfflineJudge

SERVER = "http://127.0.0.1:8400"
FILE = trainers.ROOT / "judgegym_trainers/openrlhf.py"
ASKED = [(question, text) for question in QUESTIONS for text in ANSWERS]
SAMPLES = [
    {
        "prompt": f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n",
        "label": "Since.",
        "response": text,
    }
    for question, text in ASKED
]


async def run(form: str | Path, *, agent: bool) -> list[Json]:
    """What the executor has after each sample; numbers of the agent, lists of one from the function."""
    ended = await trainers.run(
        "openrlhf", "program.py", f"agent={form}" if agent else str(form), SAMPLES
    )
    assert ended.code == 0, ended.err
    return [_flat(sample) for sample in ended.result]


def _flat(sample: Json) -> Json:
    def number(value: float | list[float]) -> float:
        return value[0] if isinstance(value, list) else value

    logs = {name: number(value) for name, value in sample["extra_logs"].items()}
    return {"reward": number(sample["reward"]), "score": number(sample["scores"]), **logs}


def written(path: Path, number: int, url: str) -> Path:
    """The example of the README as a file, with a server of the test."""
    path.write_text(swap(example("OpenRLHF", number=number), (SERVER, url)))
    return path


FORMS = [(0, True), (1, False)]
FALLBACK = -0.5


async def test_rewards_by_url_are_those_of_the_judge_and_a_failed_one_is_flagged() -> None:
    """The server's own protocol, where each sample stands for itself: the fallback, flagged, where it is chosen."""
    async with running("--judge=rubric", judge=OfflineJudge()) as server:
        scores = [score or 0.0 for score in await asked_directly(server)]
    judge = OfflineJudge(every_third_fails=True)
    async with running("--on_failure=score", f"--fallback_score={FALLBACK}", judge=judge) as server:
        results = await run(f"{server.url}/get_reward", agent=False)
    failed = failed_among(ASKED, judge)
    assert [bool(result["judge_failed"]) for result in results] == failed
    rewards = [
        FALLBACK if is_failed else score for score, is_failed in zip(scores, failed, strict=True)
    ]
    assert (
        [result["reward"] for result in results]
        == [result["score"] for result in results]
        == rewards
    )


@pytest.mark.parametrize(("number", "agent"), FORMS)
async def test_every_third_judgment_fails(number: int, agent: bool, tmp_path: Path) -> None:
    """What failed has the mean of its group, flagged; the others have their own scores."""
    async with running("--judge=rubric", judge=OfflineJudge()) as server:
        scores = await asked_directly(server)
    judge = OfflineJudge(every_third_fails=True)
    async with running("--judge=rubric", judge=judge) as server:
        results = await run(written(tmp_path / "form.py", number, server.url), agent=agent)
    failed = failed_among(ASKED, judge)
    assert [bool(result["judge_failed"]) for result in results] == failed
    assert [bool(result["invalid_completion"]) for result in results] == [
        score is None for score in scores
    ]
    size = len(ANSWERS)
    expected = [
        with_means(scores[at : at + size], failed[at : at + size])
        for at in range(0, len(SAMPLES), size)
    ]
    assert [result["reward"] for result in results] == [
        reward for group in expected for reward in group
    ]


@pytest.mark.parametrize("agent", [False, True])
async def test_groups_are_compared_in_one_call(
    agent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the module itself, and with the judge in OpenRLHF's process; the scores are the server's for a whole group."""
    async with running("--judge=listwise", judge=OfflineJudge()) as server:
        scores = await asked_directly(server, together=True)
        asked_before = len(server.judge.requests)
        judge = {
            "judge": "listwise",
            "judge_base_url": server.judge.base_url,
            "judge_model_name": "the-judge",
        }
        given = {
            "on_failure": "leave_out" if agent else "score",
            "judge": judge,
            "group_size": len(ANSWERS),
        }
        monkeypatch.setenv("JUDGEGYM_OPENRLHF", json.dumps(given))
        results = await run(FILE, agent=agent)
        asked_for = len(server.judge.requests) - asked_before
    assert [result["reward"] for result in results] == [score or 0.0 for score in scores]
    assert asked_for == len(QUESTIONS)


async def test_a_file_whose_settings_cannot_work_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given, said in (
        (None, "JUDGEGYM_OPENRLHF: .*JSON object"),
        ('{"judge": {"judge": "listwise"}}', "group_size"),
    ):
        if given is None:
            monkeypatch.delenv("JUDGEGYM_OPENRLHF", raising=False)
        else:
            monkeypatch.setenv("JUDGEGYM_OPENRLHF", given)
        ended = await trainers.run("openrlhf", "program.py", str(FILE), SAMPLES)
        assert ended.code != 0
        assert re.search(said, ended.err)


@pytest.mark.slow
async def test_rewards_of_an_environment(tmp_path: Path) -> None:
    """The label is the id of a row; the rewards are those of the environment, opened here."""
    from judgegym_trainers.single_turn import EnvironmentSource, close_all, get_environment

    source = EnvironmentSource.from_settings("rubric_absolute", offline=True)
    path = tmp_path / "form.py"
    path.write_text(
        "from judgegym_trainers.openrlhf import agent_executor\n"
        'rows = {"environment": "rubric_absolute", "offline": True}\n'
        "AgentExecutor = agent_executor(environment=rows, group_size=1)\n"
    )
    environment = get_environment(source)
    row = next(environment.rows())
    texts = [text for text in ANSWERS if text]
    ours = [each.reward for each in await environment.rewards(row.uid, texts)]
    close_all()
    samples = [{"prompt": row.question, "label": row.uid, "response": text} for text in texts]
    ended = await trainers.run("openrlhf", "program.py", f"agent={path}", samples)
    assert ended.code == 0, ended.err
    assert [sample["reward"] for sample in ended.result] == ours
