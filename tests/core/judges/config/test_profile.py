"""`--profile`: a page for a browser, however a command ends; `tests/conformance` has it for every environment."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from judgegym.judges.config import extras
from judgegym.judges.config.extras import install_command
from judgegym.judges.config.presets import write_profile
from judgegym.llm.errors import SettingsError
from tests.arena import Arena, answering
from tests.command import SCRIPT, Started, in_process, serving
from tests.core.server.served import as_process, run
from tests.core.server.test_process import post
from tests.scripted import Reply


def is_page_about(path: Path, function: str) -> bool:
    text = path.read_text()
    return "<html" in text and function in text


def slow_function() -> int:
    return sum(number * number for number in range(1_000_000))


@pytest.mark.slow
def test_a_profile_names_what_took_the_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "profile.html"
    with write_profile(path):
        slow_function()
    assert is_page_about(path, "slow_function")
    assert str(path) in capsys.readouterr().err


def test_without_a_path_nothing_is_profiled_and_nothing_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(extras.EXTRAS, "profile", ("no_such_module",))  # type: ignore[arg-type]  # a dict at run time
    with write_profile(None):
        pass


@pytest.mark.parametrize("place", ["missing/profile.html", "."])
def test_a_place_that_takes_no_file_is_refused_before_anything_is_done(
    place: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="--profile"), write_profile(tmp_path / place):
        raise AssertionError("it was begun")


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--profile", "--profile=p.html"])
def test_a_missing_profiler_is_one_line_and_code_2(
    flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(extras.EXTRAS, "profile", ("no_such_module",))  # type: ignore[arg-type]
    ended = in_process("evaluate", "--offline", flag)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"no_such_module is not installed: {install_command('profile')}\n"


@pytest.mark.slow
def test_a_flag_without_a_name_gets_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = in_process(
        "evaluate",
        "--offline",
        "--limit=1",
        "--profile",
        f"--env.data_dir_to_save_evals={tmp_path / 'r'}",
    )
    (path,) = tmp_path.glob("profile-*.html")
    assert re.search(rf"profile is in {path.name}\b", ended.err)


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return Arena(tmp_path).rows(2)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_evaluation_that_is_stopped_writes_its_profile(
    number: signal.Signals, code: int, arena: Arena
) -> None:
    path = arena.path / "profile.html"
    with serving(Reply(hang=True)) as judging, serving(answering) as policy:
        argv = arena.argv(judging.base_url, policy.base_url, f"--profile={path}")
        with Started(str(SCRIPT), *argv, cwd=arena.path) as evaluation:
            evaluation.until(lambda: judging.in_flight > 0, "judge calls under way")
            evaluation.send(number)
            ended = evaluation.ended()
    assert ended.code == code and str(path) in ended.err
    assert is_page_about(path, "event_loop")


@pytest.mark.slow
def test_the_reward_server_writes_its_profile_when_it_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "profile.html"
    with as_process("--offline", f"--profile={path}") as url:
        post(url)
    assert is_page_about(path, "event_loop")


@pytest.mark.slow
def test_the_reward_server_says_in_a_line_that_the_place_takes_no_file(tmp_path: Path) -> None:
    for workers in (1, 2):
        ended = run("--offline", "--port=0", f"--workers={workers}", f"--profile={tmp_path}")
        assert ended.code == 2 and ended.err.count("\n") == 1 and "--profile" in ended.err
