import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from environments.cli import resume_command
from judges.llm.errors import SettingsError
from tests.environments.loading import loaded_from

KEY = "sk-very-secret"
ONE, TWO = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"


def from_file(tmp_path: Path, openai: Any, *flags: str) -> Any:
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump({"openai": openai}))
    return loaded_from(f"--config={path}", *flags).settings.openai


def servers(openai: Any) -> list[tuple[str, str | None, str | None]]:
    return [
        (each.base_url, each.model_name, each.api_key.get_secret_value() if each.api_key is not None else None)
        for each in openai.replicas
    ]


LIST = [
    {"base_url": ONE, "model_name": "a", "api_key": "k", "timeout": 5.0},
    {"base_url": TWO, "timeout": 5.0},
]


def test_a_list_of_servers_becomes_replicas(tmp_path: Path) -> None:
    found = from_file(tmp_path, LIST)
    assert servers(found) == [(ONE, "a", "k"), (TWO, None, None)]
    assert (found.timeout, found.base_url) == (5.0, ONE)


def test_a_list_of_one_server(tmp_path: Path) -> None:
    assert servers(from_file(tmp_path, LIST[:1])) == [(ONE, "a", "k")]


def test_what_a_stronger_layer_says_of_all_servers_holds_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGEGYM_OPENAI__TIMEOUT", "7")
    found = from_file(tmp_path, LIST, "--openai.model_name=mine")
    assert (found.model_name, found.timeout) == ("mine", 7.0)
    assert servers(found) == [(ONE, None, "k"), (TWO, None, None)]


def test_a_url_in_a_stronger_layer_replaces_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGEGYM_OPENAI__BASE_URL", "http://127.0.0.1:3/v1")
    found = from_file(tmp_path, LIST)
    assert (found.base_url, servers(found)) == ("http://127.0.0.1:3/v1", [])


@pytest.mark.parametrize(
    ("openai", "words"),
    [
        ([], "expected a list of servers"),
        (["http://x"], "expected a list of servers"),
        ([{"base_url": ONE}, {"model_name": "m"}], "expected a list of servers, each with a base_url"),
        ([{"base_url": ONE, "timeout": 1}, {"base_url": TWO}], r"openai\.timeout .*server 2 differs"),
        (
            [{"base_url": ONE}, {"base_url": TWO}, {"base_url": TWO, "price_input": 1}],
            r"openai\.price_input .*server 3",
        ),
        ([{"base_url": "nonsense"}], "'nonsense' is not a URL"),
        ([{"base_url": ONE, "unknown": 1}], r"openai\.unknown"),
    ],
)
def test_a_list_that_cannot_be(tmp_path: Path, openai: Any, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        from_file(tmp_path, openai)


@pytest.fixture
def _as_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["eval_environments/my env.py", "evaluate"])


RUN = "--env.data_dir_to_save_evals=runs/x"


@pytest.mark.usefixtures("_as_a_script")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([RUN], [RUN, "--resume"]),
        ([RUN, "--resume"], [RUN, "--resume"]),
        (["--resume", RUN], ["--resume", RUN]),
        (["--env.data_dir_to_save_evals", "a b/$x"], ["--env.data_dir_to_save_evals", "a b/$x", "--resume"]),
        ([RUN, "--env.custom_system_prompt=It's `x`"], [RUN, "--env.custom_system_prompt=It's `x`", "--resume"]),
        ([RUN, f"--env.judge_api_key={KEY}"], [RUN, "--env.judge_api_key=***", "--resume"]),
        ([RUN, "--env.judge_api_key", KEY], [RUN, "--env.judge_api_key", "***", "--resume"]),
        ([f"--openai.api_key={KEY}", RUN], ["--openai.api_key=***", RUN, "--resume"]),
        (["--openai.api_key=e", RUN], ["--openai.api_key=***", RUN, "--resume"]),
        (
            ["--openai.api_key", "EMPTY", RUN, "--openai.model_name=EMPTY-1"],
            ["--openai.api_key", "***", RUN, "--openai.model_name=EMPTY-1", "--resume"],
        ),
        (
            [RUN, f"--env.judge_base_url=http://user:{KEY}@127.0.0.1:9/v1"],
            [RUN, "--env.judge_base_url=http://127.0.0.1:9/v1", "--resume"],
        ),
    ],
)
def test_the_command_that_resumes(given: list[str], expected: list[str]) -> None:
    command = resume_command(loaded_from(*given), ["evaluate", *given])
    assert shlex.split(command) == ["python", "eval_environments/my env.py", "evaluate", *expected]


@pytest.mark.usefixtures("_as_a_script")
@pytest.mark.parametrize(
    "given",
    [
        f'--openai.replicas=[{{"base_url": "{ONE}", "api_key": "{KEY}"}}]',
        f'--env={{"judge_api_key": "{KEY}"}}',
        f'--openai={{"api_key": "{KEY}"}}',
        f"--openai.base_url={ONE},http://{KEY}@127.0.0.1:9/v1",
    ],
)
def test_no_secret_is_in_the_command_that_resumes(given: str) -> None:
    assert KEY not in resume_command(loaded_from(given, RUN), ["evaluate", given, RUN])


@pytest.mark.usefixtures("_as_a_script")
def test_the_command_that_resumes_names_the_directory_even_if_the_run_was_not_given_one(tmp_path: Path) -> None:
    loaded = loaded_from("--limit=1")
    loaded.settings.env.data_dir_to_save_evals = "runs/settled later"
    words = shlex.split(resume_command(loaded, ["evaluate", "--limit=1"]))
    assert words[2:] == ["evaluate", "--limit=1", "--env.data_dir_to_save_evals=runs/settled later", "--resume"]


def test_without_arguments_of_its_own_it_takes_the_processs(monkeypatch: pytest.MonkeyPatch) -> None:
    from environments.cli import main
    from eval_environments.arena_hard_environment import ArenaHardEnv

    monkeypatch.setattr(sys, "argv", ["x.py", "nonsense"])
    assert main(ArenaHardEnv) == 2
    with pytest.raises(SystemExit) as leaving:
        ArenaHardEnv.cli()
    assert leaving.value.code == 2
