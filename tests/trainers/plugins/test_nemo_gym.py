"""The resources server's folder as it is put into a project; NeMo Gym itself is not needed for that."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from judgegym.judges.config.extras import build_requirement
from judgegym.server.asgi import RewardServer
from judgegym_trainers.nemo_gym.__main__ import TEMPLATE, copy_server_folder, main


def test_the_folder_is_copied_with_a_requirement_of_this_installation(tmp_path: Path) -> None:
    target = copy_server_folder(tmp_path)
    assert target == tmp_path / "resources_servers" / "judgegym"
    files = {
        path.relative_to(TEMPLATE)
        for path in TEMPLATE.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {path.relative_to(target) for path in target.rglob("*") if path.is_file()} == files
    own, ours = (target / "requirements.txt").read_text().splitlines()
    # NeMo Gym leaves the first out where it is installed from a wheel, and takes it in a checkout.
    assert own == "-e nemo-gym[dev] @ ../../"
    assert ours == build_requirement("server")
    assert ours.startswith("judgegym[server]")


@pytest.mark.parametrize("has_them", [True, False])
def test_an_older_nemo_gym_gets_no_environment_server_which_it_could_not_start(
    tmp_path: Path, has_them: bool
) -> None:
    (tmp_path / "nemo_gym").mkdir()
    if has_them:
        (tmp_path / "environment_servers").mkdir()
    for config in (copy_server_folder(tmp_path) / "configs").glob("*.yaml"):
        blocks = yaml.safe_load(config.read_text())
        assert ("judgegym_environment_server" in blocks) is has_them
        assert {"judgegym", "judgegym_simple_agent"} <= {*blocks}


def test_a_second_copy_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 0
    (tmp_path / "resources_servers" / "judgegym" / "app.py").write_text("changed")
    assert main([str(tmp_path)]) == 2
    assert (tmp_path / "resources_servers" / "judgegym" / "app.py").read_text() == "changed"
    said = capsys.readouterr()
    assert "--resources-server judgegym/external" in said.out
    assert "exists already" in said.err and said.err.count("\n") == 1


def test_the_settings_of_the_spawned_server_are_those_of_the_reward_server() -> None:
    text = (TEMPLATE / "configs" / "judgegym.yaml").read_text()
    config = yaml.safe_load(text)
    for name in ("judge_base_url", "judge_model_name"):
        text = text.replace(f"${{{name}}}", config[name])
    config = yaml.safe_load(text)
    block = config["judgegym"]["resources_servers"]["judgegym"]["reward_server"]
    settings = RewardServer(**{"for": "nemo_gym", **block}).load().settings
    assert (settings.judge, settings.on_failure, settings.deadline) == ("rubric", "sidecar", 900.0)
