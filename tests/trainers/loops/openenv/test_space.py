"""The folder of `examples/openenv_space`: what OpenEnv's own commands make of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.trainers.loops import trainers

pytestmark = pytest.mark.timeout(150)

SPACE = trainers.ROOT / "examples" / "openenv_space"


async def test_openenv_validate_accepts_the_folder(tmp_path: Path) -> None:
    command = trainers.place_of("openenv") / "bin" / "openenv"
    report = tmp_path / "report.json"
    ended = await trainers.run_with(
        str(command), "validate", SPACE, "--level", "static", "--skip-build", "--output", report
    )
    assert ended.code == 0, ended.err
    assert json.loads(report.read_text())["verdict"] == "pass"


async def test_the_folder_as_it_is_built_and_pushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainers.place_of("openenv")
    monkeypatch.setenv("OPENENV_JUDGEGYM_ENVIRONMENT", "rubric_absolute")
    monkeypatch.setenv("JUDGEGYM_OFFLINE", "true")
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", "true")
    ended = await trainers.run("openenv", "space_program.py", SPACE, tmp_path)
    assert ended.code == 0, ended.err
    found = ended.result
    assert (found["name"], found["app"]) == ("judgegym", "server.app:app")
    assert {"Dockerfile", "README.md", "openenv.yaml", "server"} <= set(found["files"]["pushed"])
    assert {"README.md", "openenv.yaml", "pyproject.toml", "server"} <= set(found["files"]["built"])
    assert "ENV ENABLE_WEB_INTERFACE=true" in found["dockerfile"]
    assert found["passed"] and found["failed"] == []
    assert found["page"] == 200
