"""A reload of the server reads the files of its judges again; what is watched or gathers groups needs a restart."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
import yaml

from judgegym.judges.config.sources import load
from judgegym.server.command import Reloader
from judgegym.server.settings import RewardServerSettings, add_preset
from tests.conformance.doors.judges import OTHER_PROMPT_FILE, PYTHON_JUDGES
from tests.core.server.running import PLACE, Running, judged_by, running

ASK = {"prompt": "Why?", "response": "Because."}


async def _reload(server: Running, *flags: str) -> None:
    judged = (f"--{name}={value}" for name, value in judged_by(server.judge).items())
    argv = [*PLACE, *judged, *flags]
    await Reloader(
        server.service, lambda: load(RewardServerSettings, argv, prog="test", reshape=add_preset)
    ).reload()


@pytest.mark.slow
@pytest.mark.parametrize("is_watched", [False, True])
async def test_a_changed_prompt_file_is_served_after_a_reload_unless_it_is_watched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_watched: bool
) -> None:
    file, config = tmp_path / "own.yaml", tmp_path / "server.yaml"
    file.write_text(OTHER_PROMPT_FILE, encoding="utf-8")
    config.write_text(yaml.safe_dump({"mounts": {"own": {"judge": str(file)}}}), encoding="utf-8")
    flags = [f"--config={config}", "--judge=peer"]
    flags += [f"--run_dir={tmp_path / 'watched'}"] if is_watched else []
    async with running(*flags, judge="FINE: yes") as server:
        await server.post("/own/v1/score", ASK)
        file.write_text(OTHER_PROMPT_FILE.replace("Fine?", "Is it fine?"), encoding="utf-8")
        with caplog.at_level(logging.ERROR):
            await _reload(server, *flags)
        await server.post("/own/v1/score", {**ASK, "response": "So."})
        shown = [body["messages"][0]["content"].partition("\n")[0] for body in server.judge.bodies]
    assert shown == (["Fine?", "Fine?"] if is_watched else ["Fine?", "Is it fine?"])
    assert bool(re.search("the judge 'own' .*restart", caplog.text)) == is_watched


@pytest.mark.slow
async def test_a_reload_runs_no_file_that_was_not_there_and_keeps_the_code_of_a_changed_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    judge, config = PYTHON_JUDGES[0], tmp_path / "server.yaml"
    own = judge.written(tmp_path / "judge")
    config.write_text(yaml.safe_dump({"mounts": {"own": {"judge": own}}}), encoding="utf-8")
    flags = [f"--config={config}"]
    async with running(*flags, judge=judge.script()) as server:
        (tmp_path / "judge" / "hats.py").write_text(
            "raise SystemExit('it has run')\n", encoding="utf-8"
        )
        with caplog.at_level(logging.WARNING):
            await _reload(server, *flags)
        answer = await server.post("/own/v1/score", ASK)
        (tmp_path / "judge" / "new.py").write_text(
            "raise SystemExit('it has run')\n", encoding="utf-8"
        )
        new = {"own": {"judge": own}, "new": {"judge": f"{tmp_path}/judge/new.py:JUDGE"}}
        config.write_text(yaml.safe_dump({"mounts": new}), encoding="utf-8")
        with caplog.at_level(logging.ERROR):
            await _reload(server, *flags)
        missing = await server.post("/new/v1/score", ASK)
    assert (answer.status, answer.json["score"], missing.status) == (200, 1.0, 404)
    assert f"new code of {tmp_path}/judge/hats.py" in caplog.text
    assert f"{tmp_path}/judge/new.py was not loaded" in caplog.text
    assert "it has run" not in caplog.text
