"""`--for TRAINER`: every answer comes before the trainer's own client gives up, in a form that it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.judges.config.sources import load
from judgegym.llm.errors import SettingsError
from judgegym.server.settings import RewardServerSettings, add_preset
from tests.core.server.bodies import DOWN, VERIFY
from tests.core.server.running import running
from tests.core.server.served import run

ITS_OWN_LIMIT_S = {"openrlhf": 180, "slime": 120, "verl": 150, "trl": 150, "verifiers": 60}


def settings(*flags: str) -> RewardServerSettings:
    return load(RewardServerSettings, flags, prog="test", reshape=add_preset).settings


@pytest.mark.parametrize(("trainer", "limit_s"), [*ITS_OWN_LIMIT_S.items(), ("nemo_gym", 86_400)])
def test_an_answer_comes_before_the_trainers_client_gives_up(trainer: str, limit_s: float) -> None:
    found = settings(f"--for={trainer}")
    assert found.judge_timeout < found.judge_deadline < found.deadline < limit_s
    assert found.endpoint_away_deadline < found.deadline
    assert found.drain_s == found.deadline + 10


@pytest.mark.parametrize("words", [["--for", "verifiers"], ["--for=verifiers"]])
def test_every_other_source_comes_before_a_preset(words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("deadline: 7\n")
    found = settings(*words, f"--config={path}", "--on_failure=sidecar")
    assert (found.deadline, found.on_failure, found.judge_deadline) == (7, "sidecar", 6.3)


def test_a_preset_may_be_named_in_a_file_or_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("for: slime\n")
    assert settings(f"--config={path}").deadline == 100
    monkeypatch.setenv("JUDGEGYM_FOR", "openrlhf")
    assert settings(f"--config={path}").deadline == 150
    assert settings(f"--config={path}", "--for=verifiers").deadline == 50


def test_an_unknown_trainer_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"--for.*'openrlhf'"):
        settings("--for=openrlfh")


def test_mounted_judges_have_the_presets_deadline() -> None:
    judges = settings(
        "--for=slime", '--mounts={"own": {"judge_deadline": 5}, "other": {}}'
    ).mounted_judges()
    assert [judges[name].judge_deadline for name in ("", "own", "other")] == [90, 5, 90]


@pytest.mark.slow
def test_what_a_preset_sets_is_shown_with_its_name() -> None:
    ended = run("--for=verifiers", "--show_config")
    assert ended.code == 0, ended.said
    lines = {line.split()[0]: line for line in ended.out.splitlines()}
    assert "50.0  [--for verifiers]" in lines["deadline"]
    assert "http  [--for verifiers]" in lines["on_failure"]
    assert "verifiers  [command line]" in lines["for"]


async def test_verifiers_client_sees_a_failed_judge_as_an_http_error() -> None:
    async with running("--for=verifiers", judge=DOWN) as server:
        answer = await server.post("/verify", VERIFY)
    assert (answer.status, "reward" in answer.json) == (503, False)


@pytest.mark.parametrize("name", ["queue_deadline", "request_deadline"])
def test_a_deadline_that_was_merged_is_dropped_where_it_was_that_of_a_request(name: str) -> None:
    assert settings("--for=verl", f"--{name}=140").deadline == 140
    for value in ("30", "soon"):
        with pytest.raises(SettingsError, match=rf"^--{name} \(command line\): .*--deadline"):
            settings("--for=verl", f"--{name}={value}")
