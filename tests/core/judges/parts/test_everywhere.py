"""The same jury and the same cascade behind every door give the same scores for the same texts."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from judgegym import Cascade, Jury, RewardJudge
from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.environments.prompts_environment import PromptsEnv
from judgegym_trainers.scores.requests import CompletionRow
from judgegym_trainers.scores.sources import JudgeSource
from tests.command import RunFiles, in_process, serving, write_lines
from tests.core.datasets.scoring import read_rows, response_in, score
from tests.core.server.running import running
from tests.faults.bench import GROUP, TrainerInMemory
from tests.scripted import Json, Reply, ScriptedEndpoint, completion
from tests.trainer import ScriptedServer

QUESTIONS = [f"Question {number}?" for number in range(8)]
TEXTS = {question: [f"Answer {place} to {question}" for place in range(GROUP)] for question in QUESTIONS}
KINDS: Mapping[str, dict[str, Any]] = {
    "jury": {"judges": ["a", "b", "c"], "jury_weights": {"a": 2, "b": 1, "c": 1}, "jury_quorum": 2},
    "cascade": {"cascade": ["a", "b"], "cascade_threshold": 0.6, "cascade_recheck": 0.3},
}


def rating(model: str, text: str) -> int | None:
    """From 1 to 5; `c` fails for some texts."""
    number = zlib.crc32(f"{model} {text}".encode())
    return None if model == "c" and number % 4 == 0 else number % 5 + 1


def judge(request: Json, number: int) -> Reply | str:
    found = rating(request["model"], response_in(request))
    return Reply(status=400) if found is None else f"[FEEDBACK] So. [SCORE] {found}"


def expected(kind: str, text: str, group: list[str]) -> float:
    """By hand; of a cascade, `group` are the texts that have one judge."""
    unit = {model: None if (found := rating(model, text)) is None else (found - 1) / 4 for model in "abc"}
    if kind == "cascade":
        is_escalated = any(rating("a", each) in (2, 3, 4) for each in group)
        return float(unit["b" if is_escalated else "a"] or 0.0)
    weighted = [(weight, unit[name]) for name, weight in KINDS["jury"]["jury_weights"].items()]
    known = [(weight, value) for weight, value in weighted if value is not None]
    return sum(weight * value for weight, value in known) / sum(weight for weight, _ in known)


def single(kind: str) -> dict[str, float]:
    return {text: expected(kind, text, [text]) for texts in TEXTS.values() for text in texts}


def grouped(kind: str) -> dict[str, float]:
    return {text: expected(kind, text, texts) for texts in TEXTS.values() for text in texts}


def flags(kind: str, section: str = "--") -> list[str]:
    return [f"{section}judge={kind}", *(f"{section}{name}={json.dumps(value)}" for name, value in KINDS[kind].items())]


def policy(request: Json, number: int) -> Reply:
    texts = TEXTS[request["messages"][-1]["content"]]
    return Reply(body=completion(*texts[: request.get("n", 1)]))


each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.slow
@each_kind
def test_scored_data_notebook_composite_and_plugins(tmp_path: Path, kind: str) -> None:
    rows = [{"prompt": question, "response": text} for question, texts in TEXTS.items() for text in texts]
    data, out = write_lines(tmp_path / "data.jsonl", rows), tmp_path / "out.jsonl"
    with serving(judge) as endpoint:
        of = {"judge_base_url": endpoint.base_url, "judge_max_retries": 0}
        ended = score(data, f"--out={out}", *flags(kind), f"--judge_base_url={endpoint.base_url}")
        assert ended.code == 0, ended.said
        found = {row["response"]: row["judge/score"] for row in read_rows(out)}
        assert found == pytest.approx(single(kind))
        cells = [{"question": row["prompt"], "answer": row["response"]} for row in rows]
        opened: Callable[..., Any] = Jury if kind == "jury" else Cascade
        part = {"judge": kind, **KINDS[kind]}
        for made in (opened(**KINDS[kind], **of), RewardJudge(reward={"x": part}, **of)):
            with made:
                assert made.many_sync(cells, progress=False).scores == pytest.approx([*single(kind).values()])
        source = JudgeSource(judge={"judge": kind, **KINDS[kind], **of})

        async def plugged() -> dict[str, float | None]:
            scoring, scores = source.scoring(), dict[str, float | None]()
            for row in rows:
                (one,) = await scoring.score_each([CompletionRow({"prompt": row["prompt"]}, row["response"])])
                scores[row["response"]] = one.reward
            await scoring.close()
            return scores

        assert asyncio.run(plugged()) == pytest.approx(single(kind))


@pytest.mark.slow
@each_kind
async def test_server(kind: str) -> None:
    mount = f"--mounts={json.dumps({'made': {'judge': kind, **KINDS[kind]}})}"
    async with running(mount, "--judge=peer", judge=judge) as server:
        for question, texts in TEXTS.items():
            alone = await server.post("/made/v1/score", {"prompt": question, "response": texts[0]})
            assert alone.json["score"] == pytest.approx(single(kind)[texts[0]])
            group = await server.post("/made/v1/score", {"prompt": question, "responses": texts})
            scores = [result["score"] for result in group.json["results"]]
            assert scores == pytest.approx([grouped(kind)[text] for text in texts])


def env_flags(kind: str, endpoint: ScriptedEndpoint, answering: ScriptedEndpoint) -> list[str]:
    urls = [f"--env.judge_base_url={endpoint.base_url}", f"--openai.base_url={answering.base_url}"]
    return [*flags(kind, "--env."), *urls, "--env.retry_delay=0"]


@pytest.mark.slow
@each_kind
def test_evaluate_process_and_serve(tmp_path: Path, kind: str) -> None:
    data = write_lines(tmp_path / "prompts.jsonl", [{"prompt": question} for question in QUESTIONS])
    with serving(judge) as endpoint, serving(policy) as answering:
        of = env_flags(kind, endpoint, answering)
        into = f"--env.data_dir_to_save_evals={tmp_path / 'run'}"
        ended = in_process(
            "evaluate", f"--env.eval_dataset={data}", into, "--env.min_response_length=0", *of, env_type=PromptsEnv
        )
        assert ended.code == 0, ended.said
        found = {sample["model_answer"]: sample["score"] for sample in RunFiles(tmp_path / "run").samples}
        assert found == pytest.approx({texts[0]: single(kind)[texts[0]] for texts in TEXTS.values()})
        groups = [
            f"--env.train_dataset={data}",
            f"--env.group_size={GROUP}",
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            "--env.ensure_scores_are_not_same=False",
        ]
        path = tmp_path / "groups.jsonl"
        where = [f"--env.data_path_to_save_groups={path}", f"--env.total_steps={len(QUESTIONS)}"]
        ended = in_process("process", *groups, *where, *of, env_type=PromptsEnv)
        assert ended.code == 0, ended.said
        assert scores_of(read_rows(path)) == pytest.approx(grouped(kind))
        trainer = TrainerInMemory(len(QUESTIONS))
        with serving(ScriptedServer(trainer)) as api:  # type: ignore[arg-type]  # it has the same methods
            api_url = api.base_url.removesuffix("/v1")
            more = ["--env.steps_per_eval=-1", "--env.total_steps=1", "--env.max_batches_offpolicy=1"]
            where = [f"--env.rollout_server_url={api_url}", f"--env.data_path_to_save_groups={tmp_path / 's.jsonl'}"]
            ended = in_process("serve", *groups, *where, *more, "--env.max_num_workers=4", *of, env_type=PromptsEnv)
        assert ended.code == 0, ended.said
        sent = [value for group in trainer.groups for value in group["scores"]]
        assert sorted(sent) == pytest.approx(sorted(grouped(kind).values()))


def scores_of(groups: Any) -> dict[str, float]:
    """The score of each text in a file of groups."""
    return {
        messages[-1]["content"]: value
        for group in groups
        for messages, value in zip(group["messages"], group["scores"], strict=True)
    }
