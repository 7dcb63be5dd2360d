"""Open environments: shared by equal sources, asked from any thread and loop, closed and opened again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.llm.errors import DataError, SettingsError
from judgegym_trainers.single_turn import (
    EnvironmentSource,
    close_all,
    close_opened,
    get_environment,
)
from tests.command import write_lines

ARENA = EnvironmentSource.from_settings("arena_hard", offline=True)
RUBRIC = EnvironmentSource.from_settings("rubric_absolute", offline=True)
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The rows of Arena-Hard are read when the second event is set; the first is set when they are asked for."""
    asked, go = threading.Event(), threading.Event()
    read: Callable[..., Any] = ArenaHardEnv.tasks

    def tasks(self: ArenaHardEnv, split: Any) -> Any:
        asked.set()
        assert go.wait(PATIENCE_S)
        return read(self, split)

    monkeypatch.setattr(ArenaHardEnv, "tasks", tasks)
    yield asked, go
    go.set()


@pytest.mark.slow
def test_equal_sources_share_one_environment() -> None:
    assert get_environment(RUBRIC) is get_environment(
        EnvironmentSource.from_settings("rubric_absolute", offline=True)
    )
    assert get_environment(RUBRIC) is not get_environment(
        EnvironmentSource.from_settings("rubric_absolute", {"thinking_mode": True}, offline=True)
    )


@pytest.mark.slow
def test_rows_of_one_are_read_while_another_judges(
    slow: tuple[threading.Event, threading.Event],
) -> None:
    asked, go = slow
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(get_environment, ARENA), pool.submit(get_environment, ARENA)
        assert asked.wait(PATIENCE_S)
        environment = get_environment(RUBRIC)
        (result,) = environment.rewards_sync(environment.uids[0], ["An answer."])
        assert result.reward is not None and not first.done() and not second.done()
        go.set()
        assert first.result(PATIENCE_S) is second.result(PATIENCE_S)


def test_an_environment_that_cannot_be_opened_says_why_each_time() -> None:
    wrong = EnvironmentSource.from_settings("arena_hard", {"judge_modl_name": "m"}, offline=True)
    for _ in range(2):
        with pytest.raises(
            SettingsError, match=r"judge_modl_name, did you mean --env\.judge_model_name\?"
        ):
            get_environment(wrong)
    missing = {"train_prompt_dataset": "/no/rows.jsonl", "judge_base_url": "http://127.0.0.1:1/v1"}
    with pytest.raises(DataError, match=r"/no/rows\.jsonl: .*no such file"):
        get_environment(EnvironmentSource.from_settings("arena_hard", missing))
    with pytest.raises(
        SettingsError, match=r"no environment 'arena_hrd', did you mean arena_hard\?"
    ):
        get_environment(EnvironmentSource.from_settings("arena_hrd"))
    with pytest.raises(SettingsError, match=r"API key, .*NOBODY is not set"):
        get_environment(
            EnvironmentSource.from_settings("rubric_absolute", {"judge_api_key_env": "NOBODY"})
        )


@pytest.mark.parametrize("name", ["user", "turns", "one"])
def test_an_environment_that_goes_on_is_refused_without_a_question(
    name: str, tmp_path: Path
) -> None:
    """A trainer that samples by itself would have the first turn judged as the conversation."""
    row = {"prompt": "Why?"} if name != "turns" else {"turns": ["Why?", "And then?"]}
    rows = write_lines(tmp_path / "rows.jsonl", [row])
    users = (
        {"user_max_turns": 1, "user_base_url": "http://127.0.0.1:1/v1"} if name == "user" else {}
    )
    judge = {"judge": "rule", "rule": "contains", "rule_expected": "b"}
    source = EnvironmentSource.from_settings(
        "prompts", {"train_dataset": str(rows), **judge, **users}
    )
    if name == "one":
        assert len(get_environment(source)) == 1
    else:
        with pytest.raises(SettingsError, match=r"prompts: the row '[^']+' .*several turns"):
            get_environment(source)


@pytest.mark.slow
def test_threads_and_loops_get_the_same_rewards() -> None:
    environment = get_environment(RUBRIC)
    uid = environment.uids[0]
    expected = environment.rewards_sync(uid, ["An answer."])

    def own_loop(_: int) -> Any:
        return asyncio.run(environment.rewards(uid, ["An answer."]))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(own_loop, range(4))) == [expected] * 4


@pytest.mark.slow
def test_closed_and_opened_again() -> None:
    environment, other = get_environment(RUBRIC), get_environment(ARENA)
    for ask in (other.row, lambda uid: other.rewards_sync(uid, ["An answer."])):
        with pytest.raises(
            DataError, match=r"arena_hard: no row 'nobody' among the 12 rows .*train"
        ):
            ask("nobody")
    expected = environment.rewards_sync(environment.uids[0], ["An answer."])
    close_opened(RUBRIC)
    with pytest.raises(
        RuntimeError,
        match=r"rubric_absolute: .*closed; `get_environment`",
    ):
        environment.rewards_sync(environment.uids[0], ["An answer."])
    assert get_environment(ARENA) is other
    again = get_environment(RUBRIC)
    assert again is not environment
    assert again.rewards_sync(again.uids[0], ["An answer."]) == expected
    close_all()
    close_all()


LEFT_OPEN = """
import asyncio
from judgegym_trainers.single_turn import get_environment
from judgegym_trainers.single_turn import EnvironmentSource
environment = get_environment(EnvironmentSource.from_settings("rubric_absolute", offline=True))
asked = (environment.uids[0], ["An answer."])
async def rewards():
    return await environment.rewards(*asked)
print(asyncio.run(rewards()) == asyncio.run(rewards()) == environment.rewards_sync(*asked))
"""
FORKED = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python's own word on forks, from 3.12 on
from judgegym_trainers.single_turn import get_environment
from judgegym_trainers.single_turn import EnvironmentSource
from judgegym.llm.errors import SettingsError
source = EnvironmentSource.from_settings("rubric_absolute", offline=True)
uid = get_environment(source).uids[0]
if os.fork() == 0:
    try:
        assert get_environment(source).row(uid).uid == uid
        get_environment(source).rewards_sync(uid, ["An answer."])
    except SettingsError as error:
        os.write(1, str(error)[:11].encode())
    os._exit(0)
os.wait()
print(get_environment(source).rewards_sync(uid, ["An answer."])[0].reward is not None)
"""
FORKED_BEFORE = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from judgegym_trainers.single_turn import get_environment
from judgegym_trainers.single_turn import EnvironmentSource
source = EnvironmentSource.from_settings("rubric_absolute", offline=True)
child = os.fork()
get_environment(source).rewards_sync(get_environment(source).uids[0], ["An answer."])
if child:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "printed"), [(LEFT_OPEN, "True"), (FORKED, "judges wereTrue"), (FORKED_BEFORE, "0")]
)
def test_a_script_that_closes_nothing_ends_without_a_word(script: str, printed: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "default", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (ended.stdout.strip(), ended.stderr) == (printed, "")
