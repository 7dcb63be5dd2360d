"""The files for the reward server's operation: their commands start it, and their metrics exist."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import yaml

from examples.processes import ROOT
from judgegym.judges.config.sources import load
from judgegym.server.settings import RewardServerSettings, with_preset
from tests.scripted import Json, Reply
from tests.server.bodies import DOWN
from tests.server.running import asked, running

FILES = ROOT / "examples" / "server"


def started(words: list[str]) -> RewardServerSettings:
    """The settings of a command line that ends with `judge-server` and its flags."""
    assert words[1] == "judge-server"
    flags = [*words[2:], "--judge=rubric", '--tokens={"trainer": "secret"}', "--offline"]
    return load(RewardServerSettings, flags, prog="test", reshape=with_preset).settings


def test_the_commands_start_a_server_that_others_reach(tmp_path: Path) -> None:
    docker = re.findall(r"^ENTRYPOINT (.*)$", (FILES / "Dockerfile").read_text(), re.MULTILINE)
    (unit,) = re.findall(r"^ExecStart=(.*)$", (FILES / "judgegym.service").read_text(), re.MULTILINE)
    config = tmp_path / "server.yaml"
    config.write_text("judge: rubric\n")
    for words in (json.loads(docker[0]), shlex.split(unit.replace("/etc/judgegym/server.yaml", str(config)))):
        settings = started(words)
        assert (settings.host, settings.port) == ("0.0.0.0", 8400)
        settings.check_access()


async def test_the_alerts_are_about_metrics_that_exist() -> None:
    def judge(request: Json, number: int) -> Reply | str:
        return DOWN if "Evaluate\n\nB" in asked(request) else "[FEEDBACK] fine [SCORE] 5"

    async with running(judge=judge) as server:
        await server.post("/v1/score", {"prompt": "Q", "responses": ["A", "B"]})
        metrics = (await server.get("/metrics")).text
    there = set(re.findall(r"^(judgegym_\w+)", metrics, re.MULTILINE))
    rules = [rule for group in yaml.safe_load((FILES / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
    wanted = {name for rule in rules for name in re.findall(r"judgegym_\w+", rule["expr"])}
    assert len(wanted) > 5
    assert wanted <= there
