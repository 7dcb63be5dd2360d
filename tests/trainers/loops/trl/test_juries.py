"""A jury and a cascade in `GRPOTrainer`: advantages are those of the scores that the server gives the same group."""

from __future__ import annotations

import json
import statistics
import zlib
from pathlib import Path

import pytest

from tests.core.datasets.scoring import response_in
from tests.core.server.running import running
from tests.scripted import Json, Reply
from tests.trainers.loops import trainers

TEXTS = [f"Answer {place}" for place in range(4)]
KINDS = {
    "jury": {"judge": "jury", "judges": ["a", "b"], "jury_weights": {"a": 2, "b": 1}},
    "cascade": {"judge": "cascade", "cascade": ["a", "b"], "cascade_threshold": 0.6},
}


def rating(model: str, text: str) -> int:
    return zlib.crc32(f"{model} {text}".encode()) % 5 + 1


def judge(request: Json, number: int) -> Reply | str:
    return f"[FEEDBACK] So. [SCORE] {rating(request['model'], response_in(request))}"


@pytest.mark.timeout(150)
async def test_jury_and_cascade_train_with_the_scores_of_the_server(tmp_path: Path) -> None:
    shape = {"rows": [{"prompt": "Q"}], "per_device": 4, "generations": 4, "texts": TEXTS}
    async with running(f"--mounts={json.dumps(KINDS)}", judge=judge) as server:
        of = {"judge_base_url": server.judge.base_url, "judge_model_name": "a"}
        runs = {kind: {**shape, "reward": {"judge": {"judge": {**KINDS[kind], **of}}}} for kind in KINDS}
        ended = await trainers.run("trl", "program.py", str(tmp_path), runs)
        assert ended.code == 0, ended.err
        for kind in KINDS:
            found = await server.post(f"/{kind}/v1/score", {"prompt": "Q", "responses": TEXTS})
            scores = [each["score"] for each in found.json["results"]]
            mean, deviation = statistics.fmean(scores), statistics.stdev(scores)
            expected = [(score - mean) / (deviation + 1e-4) for score in scores]
            assert deviation > 0
            assert ended.result[kind]["advantages"] == pytest.approx(expected, abs=1e-5), kind
