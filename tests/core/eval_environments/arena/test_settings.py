"""Settings end to end: help, `--show_config`, what wins over what, several servers, and where keys and requests go."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.arena import Arena
from tests.command import in_process, write_lines

KEY = "sk-very-secret-0123456789"
URL = "http://127.0.0.1:9/v1"


def shown(*argv: str, env: dict[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """What `--show_config` says: value and source by name."""
    ended = in_process("evaluate", *argv, "--show_config", env=env)
    assert ended.code == 0, ended.said
    lines = [line.rsplit("  [", 1) for line in ended.out.splitlines()]
    named = [(text.split(None, 1), source.removesuffix("]")) for text, source in lines]
    return {words[0]: (words[1] if len(words) > 1 else "", source) for words, source in named}


def test_show_config_names_each_value_and_its_source_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "my.yaml"
    file.write_text(
        yaml.safe_dump(
            {"env": {"judge_temperature": 0.5, "seed": 3}, "openai": {"model_name": "mine"}}
        )
    )
    env = {"JUDGEGYM_ENV__SEED": "4", "JUDGEGYM_OPENAI__TIMEOUT": "9"}
    found = shown(f"--config={file}", "--env.eval_temperature=0.1", env=env)
    offline = shown("--offline", f"--config={file}", env=env)
    assert found["env.eval_temperature"] == ("0.1", "command line")
    assert found["env.seed"] == ("4", "environment variable JUDGEGYM_ENV__SEED")
    assert found["openai.timeout"] == ("9.0", "environment variable JUDGEGYM_OPENAI__TIMEOUT")
    assert found["env.judge_temperature"] == ("0.5", str(file))
    assert found["openai.model_name"] == ("mine", str(file))
    assert offline["env.judge_model_name"] == ("offline-judge", "--offline")
    assert found["env.judge_max_tokens"] == ("4096", "default")
    assert [path.name for path in tmp_path.iterdir()] == ["my.yaml"]


def test_show_config_needs_no_key_and_no_data(tmp_path: Path) -> None:
    assert (
        shown("--env.train_prompt_dataset=none.jsonl")["env.judge_base_url"][0]
        == "https://api.anthropic.com/v1"
    )


@pytest.mark.parametrize(
    "flag",
    [
        f"--env.judge_api_key={KEY}",
        f'--env={{"judge_api_key": "{KEY}"}}',
        f"--openai.base_url=http://user:{KEY}@127.0.0.1:9/v1,{URL}",
        f'--openai.replicas=[{{"base_url": "http://user:{KEY}@127.0.0.1:9/v1"}}]',
    ],
)
def test_show_config_masks_secrets(flag: str) -> None:
    ended = in_process("evaluate", "--offline", flag, "--show_config")
    assert ended.code == 0, ended.said
    assert KEY not in ended.said


@pytest.mark.parametrize(
    ("flags", "env"),
    [
        (("--no-offline",), {"JUDGEGYM_OFFLINE": "true"}),
        (("--no-offline", "--config=my.yaml"), {}),
        (("--config=my.yaml",), {"JUDGEGYM_OFFLINE": "false"}),
    ],
)
def test_offline_can_be_switched_off_by_a_stronger_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], env: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.yaml").write_text("offline: true\n")
    found = shown(*flags, env=env)
    assert found["offline"][0] == "False"
    assert found["env.judge_base_url"] == ("https://api.anthropic.com/v1", "default")


@pytest.mark.parametrize("word", ["1", "True", "yes"])
def test_offline_means_stand_ins_however_it_is_said(word: str) -> None:
    found = shown(env={"JUDGEGYM_OFFLINE": word})
    assert found["offline"][0] == "True"
    assert found["env.judge_base_url"][1] == "--offline"


@pytest.mark.slow
def test_a_key_in_a_variable_goes_to_no_host_that_it_is_not_for(arena: Arena) -> None:
    """Neither in the first run, nor in one that is configured by the first one's `config.yaml`."""
    env = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
    first = arena.evaluate(env=env, run="first")
    second = arena.evaluate(f"--config={first.files.path / 'config.yaml'}", env=env, run="second")
    for run in (first, second):
        assert run.code == 0, run.said
        requests = [*run.judge.requests, *run.policy.requests]
        assert not any("Authorization" in request.headers for request in requests)


@pytest.mark.slow
def test_a_named_variable_is_meant_for_the_host(arena: Arena) -> None:
    run = arena.evaluate(
        "--env.judge_api_key_env=MINE",
        "--openai.api_key_env=THEIRS",
        env={"MINE": "a", "THEIRS": "b"},
    )
    assert {request.headers["Authorization"] for request in run.judge.requests} == {"Bearer a"}
    assert {request.headers["Authorization"] for request in run.policy.requests} == {"Bearer b"}


@pytest.mark.slow
def test_local_files_are_read_without_the_network(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told what is evaluated here, whatever the libraries would like to count."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", True)
    hosts: set[str] = set()
    look_up = socket.getaddrinfo

    def watched(host: Any, *rest: Any, **more: Any) -> Any:
        hosts.add(str(host))
        if host not in ("127.0.0.1", "localhost"):
            raise socket.gaierror(f"a test must not look up {host}")
        return look_up(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", watched)
    answers = write_lines(
        arena.path / "mine.jsonl", [{"uid": f"row-{n}", "answer": "my answer"} for n in range(6)]
    )
    assert arena.evaluate(f"--env.model_answers={answers}").code == 0
    assert hosts <= {"127.0.0.1", "localhost"}
