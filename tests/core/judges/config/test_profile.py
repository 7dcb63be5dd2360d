"""`--profile`: a page for a browser, however a command ends; `tests/conformance` has it for every environment."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from judgegym.judges.config import extras
from judgegym.judges.config.extras import install_command
from judgegym.judges.config.presets import profiled
from judgegym.llm.errors import SettingsError
from tests.arena import Arena, answering
from tests.command import PATIENCE_S, SCRIPT, Started, eventually, in_process, serving
from tests.core.server.served import as_process, run, started
from tests.core.server.test_process import post
from tests.scripted import Reply


def is_page_about(path: Path, function: str) -> bool:
    text = path.read_text()
    return "<html" in text and function in text


def slow_function() -> int:
    return sum(number * number for number in range(1_000_000))


@pytest.mark.slow
def test_a_profile_names_what_took_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile.html"
    with profiled(path):
        slow_function()
    assert is_page_about(path, "slow_function")
    assert str(path) in capsys.readouterr().err


def test_without_a_path_nothing_is_profiled_and_nothing_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "profile", ("no_such_module",))  # type: ignore[arg-type]  # a dict at run time
    with profiled(None):
        pass


@pytest.mark.slow
def test_a_profile_is_written_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), profiled(tmp_path / "profile.html"):
        slow_function()
        raise KeyboardInterrupt
    assert is_page_about(tmp_path / "profile.html", "slow_function")


@pytest.mark.parametrize("place", ["missing/profile.html", "."])
def test_a_place_that_takes_no_file_is_refused_before_anything_is_done(place: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--profile"), profiled(tmp_path / place):
        raise AssertionError("it was begun")


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--profile", "--profile=p.html"])
def test_a_missing_profiler_is_one_line_and_code_2(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "profile", ("no_such_module",))  # type: ignore[arg-type]
    ended = in_process("evaluate", "--offline", flag)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"no_such_module is not installed: {install_command('profile')}\n"


@pytest.mark.slow
def test_a_flag_without_a_name_gets_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = in_process(
        "evaluate", "--offline", "--limit=1", "--profile", f"--env.data_dir_to_save_evals={tmp_path / 'r'}"
    )
    (path,) = tmp_path.glob("profile-*.html")
    assert re.search(rf"The profile is in {path.name}\b", ended.err)


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return Arena(tmp_path).rows(2)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_evaluation_that_is_stopped_writes_its_profile(number: signal.Signals, code: int, arena: Arena) -> None:
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
def test_serve_that_is_stopped_writes_its_profile(tmp_path: Path) -> None:
    path = tmp_path / "profile.html"
    argv = "serve", "--offline", "--env.rollout_server_url=http://127.0.0.1:1", f"--profile={path}"
    with Started(str(SCRIPT), *argv, cwd=tmp_path) as serve:
        serve.until(lambda: any(tmp_path.glob("runs/serve*")), "its run directory")
        serve.send(signal.SIGINT)
        ended = serve.ended()
    assert ended.code == 130 and str(path) in ended.err
    assert is_page_about(path, "event_loop")


def takes_sigterm(pid: int) -> bool:
    """Whether a process handles the signal, which it does when it serves."""
    caught = re.search(r"SigCgt:\s+(\w+)", Path(f"/proc/{pid}/status").read_text())
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
def test_the_reward_server_writes_its_profile_when_it_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "profile.html"
    with as_process("--offline", f"--profile={path}") as url:
        post(url)
    assert is_page_about(path, "event_loop")


@pytest.mark.slow
def test_each_worker_of_the_reward_server_writes_a_profile_of_its_own(tmp_path: Path) -> None:
    with started("--offline", "--workers=2", f"--profile={tmp_path / 'profile.html'}") as (server, url):
        post(url)
        eventually(lambda: sum(map(takes_sigterm, children(server.pid))) == 2, "both workers serve")
        server.send_signal(signal.SIGTERM)
        server.communicate(PATIENCE_S)
    assert len([path for path in tmp_path.glob("profile-*.html") if is_page_about(path, "event_loop")]) == 2


@pytest.mark.slow
def test_the_reward_server_says_in_a_line_that_the_place_takes_no_file(tmp_path: Path) -> None:
    for workers in (1, 2):
        ended = run("--offline", "--port=0", f"--workers={workers}", f"--profile={tmp_path}")
        assert ended.code == 2 and ended.err.count("\n") == 1 and "--profile" in ended.err
