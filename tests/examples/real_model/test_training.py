"""The example's trainer over the real rollout API, with a scripted server in llama.cpp's dialect."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from examples.real_model import training
from examples.real_model.http import Endpoint
from examples.real_model.server import RunningServer, ServerSettings
from tests.core.environments.llama_server import EOG, LlamaServer, logprob
from tests.scripted import Json, Recorded, Reply


class Computing(LlamaServer):
    """Also makes text of ids, and computes the logprobs of the token after some ids; some of them wrong."""

    wrong_at = 3

    def _script(self, request: Recorded, number: int) -> Reply:
        if request.path == "/detokenize":
            return Reply(
                body={"content": bytes(id for id in request.json["tokens"] if id != EOG).decode()}
            )
        if request.path == "/completion":
            before = bytes(request.json["prompt"][1:]).partition(b"<assistant>")[2]
            found = logprob(len(before)) - (1.0 if len(before) == self.wrong_at else 0.0)
            ((forced, _),) = request.json["logit_bias"]
            return Reply(body={"completion_probabilities": [{"id": forced, "logprob": found}]})
        return super()._script(request, number)


def text(request: Json, number: int, index: int) -> str:
    if "grammar" in request:
        return f"[FEEDBACK] Words about the answer. [SCORE] {number % 5 + 1}"
    return f"Answer {number}"


async def test_ids_and_logprobs_are_checked_with_the_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_CHECKED", 10_000)
    async with Computing(text) as server:
        port = urlsplit(server.url).port
        assert port is not None
        running = RunningServer(Endpoint(server.url, "m"), ServerSettings(port), 0.0, (), None)  # type: ignore[arg-type]
        trained = await asyncio.to_thread(training.train, running, tmp_path)
    assert isinstance(trained, training.TrainingCheck), trained
    count = training.STEPS * training.BATCH
    assert len(trained.rollouts) == count == trained.prompts == trained.texts
    assert trained.recomputed == sum(len(each.completion) for each in trained.rollouts)
    assert trained.near == trained.recomputed - count, "one of each is wrong"
    assert "the endpoint's own" in trained.source
    assert f"{count} of {count}" in trained.table()
