"""An environment for TRL: rows, the reward function, and the environments of `environment_factory`."""

from __future__ import annotations

import asyncio
import gc
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import CUT_OFF, Choice
from judgegym_trainers import single_turn
from judgegym_trainers.single_turn import EnvironmentSource
from judgegym_trainers.trl import JudgeEnvironment, judge_environment
from judgegym_trainers.trl.environment import read_choice
from tests.command import clean_environment
from tests.scripted import Json, Meeting, ScriptedEndpoint
from tests.trainers.loops.offline import OfflineJudge, offline_judge

ANSWERS = ["a short answer", "a rather longer answer with many words in it", "", "yes"]
PEER, ARENA = "self_critique", "arena_hard"


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    single_turn.close_all()


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with offline_judge() as (url, _):
        yield url
        await asyncio.to_thread(single_turn.close_all)


def settings_of(url: str, **further: object) -> dict[str, object]:
    return {
        "judge_base_url": url,
        "judge_model_name": "m",
        "judge_api_key": "k",
        "judge_max_retries": 0,
        **further,
    }


def environment_of(
    url: str,
    environment: str = PEER,
    *,
    group_size: int | None = None,
    name: str | None = None,
    **settings: object,
) -> JudgeEnvironment:
    given = settings_of(url, **settings)
    return judge_environment(environment, given, offline=True, group_size=group_size, name=name)


async def rows_of(environment: JudgeEnvironment, *, each: int, count: int = 1) -> list[Any]:
    """The first rows, each several times, as TRL has them in a batch."""
    rows = (await asyncio.to_thread(environment.rows))[:count]
    return [row for row in rows for _ in range(each)]


def columns_of(rows: list[Any]) -> dict[str, Any]:
    return {name: [row.get(name) for row in rows] for name in ("uid", "environment", "split")}


async def ours(
    url: str, uid: str, answers: list[Any], environment: str = PEER, **settings: object
) -> list[Any]:
    source = EnvironmentSource.from_settings(
        environment, settings_of(url, **settings), offline=True
    )
    here = await asyncio.to_thread(single_turn.get_environment, source)
    return [result.reward for result in await here.rewards(uid, answers)]


class Trainer:
    """What a reward function finds of its trainer."""

    num_generations = 4
    num_generations_eval = 2
    eos_token_ids = (7,)
    is_in_train = True

    def __init__(self) -> None:
        self.model = SimpleNamespace(training=True)
        self.callback_handler = SimpleNamespace(callbacks=[])
        self.metrics: dict[str, float] = {}

    def add_callback(self, callback: object) -> None:
        self.callback_handler.callbacks.append(callback)

    def log_metric(self, name: str, value: float) -> None:
        self.metrics[name] = value


async def test_a_dataset_of_the_rows(url: str) -> None:
    environment = environment_of(url)
    dataset = await asyncio.to_thread(environment.dataset, "eval")
    rows = await asyncio.to_thread(environment.rows, "eval")
    assert list(dataset) == rows
    assert {(row["environment"], row["split"]) for row in rows} == {("self_critique", "eval")}
    assert len({row["uid"] for row in rows}) == len(rows) > 1
    assert all(row["prompt"][-1]["role"] == "user" and row["prompt"][-1]["content"] for row in rows)


@pytest.mark.slow
async def test_the_reward_function_gives_the_rewards_of_the_rows(url: str) -> None:
    trainer, extra = Trainer(), dict[str, list[Any]]()
    environment = environment_of(url)
    rows = await rows_of(environment, each=4)
    turns = [[{"role": "assistant", "content": text}] for text in ANSWERS]
    loggers = {
        "log_metric": trainer.log_metric,
        "log_extra": lambda name, values: extra.update({name: values}),
    }
    rewards = await environment.reward(["Q"] * 4, turns, **columns_of(rows), **loggers)
    assert rewards == await ours(url, rows[0]["uid"], ANSWERS)
    assert rewards == await environment.reward(
        ["Q"] * 4, ANSWERS, **columns_of(rows)
    )  # plain, trainer unknown
    assert environment.reward.__name__ == "self_critique"
    assert (trainer.metrics["self_critique_failed"], trainer.metrics["self_critique_invalid"]) == (
        0.0,
        0.25,
    )
    assert 0 < trainer.metrics["self_critique/mean_score"] < 100
    assert extra["self_critique_status"] == ["ok", "ok", "invalid_completion", "ok"]


async def test_rows_of_others_are_left_to_others(url: str) -> None:
    trainer, environment = Trainer(), environment_of(url)
    trainer.num_generations = 2
    own = await rows_of(environment, each=2)
    rows = [*own, {"environment": "wordle"}, {"environment": "other", "uid": "7"}]
    rewards = await environment.reward(
        ["Q"] * 4, ["a b c", "", "x", "y"], **columns_of(rows), log_metric=trainer.log_metric
    )
    assert rewards[2:] == [None, None]
    assert None not in rewards[:2]
    assert trainer.metrics["self_critique_invalid"] == 0.5


async def test_a_dataset_of_another_kind_is_refused(url: str) -> None:
    environment = environment_of(url)
    with pytest.raises(SettingsError, match=r"train_dataset: .*no column uid"):
        await environment.reward(["Q"], ["a"])
    with pytest.raises(DataError, match="no row 'nobody'"):
        await environment.reward(["Q"], ["a"], uid=["nobody"])
    assert not single_turn._OPENED, "an error closes what is open"
    with pytest.raises(DataError, match="found uid 'x' and split 'dev'"):
        await environment.reward(["Q"], ["a"], uid=["x"], split=["dev"])
    with pytest.raises(DataError, match="found uid None and split None"):
        environment().reset(prompt="Q")


async def test_a_comparing_environment_needs_the_size_of_its_groups(url: str) -> None:
    environment = environment_of(url, ARENA, group_judge="listwise")
    rows = await rows_of(environment, each=2)
    with pytest.raises(SettingsError, match=r"group_size: .* num_generations"):
        await environment.reward(["Q"] * 2, ["a", "b"], **columns_of(rows))
    begun = [environment() for _ in range(2)]
    for episode, row in zip(begun, rows, strict=True):
        episode.reset(**row)
    with pytest.raises(SettingsError, match=r"group_size: .* num_generations"):
        await begun[0].get_reward()
    with pytest.raises(SettingsError, match="2 or more"):
        judge_environment(ARENA, offline=True, group_size=1)


def test_the_tools_of_an_environment_are_one() -> None:
    """TRL offers every public method to the policy."""
    environment = judge_environment(PEER, offline=True, name="peers")
    episode = environment()
    public = {
        name
        for name, _ in inspect.getmembers(type(episode), inspect.isfunction)
        if not name.startswith("_")
    }
    assert public == {"reset", "answer", "get_reward"}
    assert inspect.iscoroutinefunction(episode.get_reward)
    assert type(episode).__name__ == "peers"
    assert type(episode) is type(environment()) is not type(judge_environment(PEER, offline=True)())


async def test_the_first_reward_judges_all_at_once() -> None:
    """TRL asks for one reward after another."""
    met, judge = Meeting(3), OfflineJudge()

    async def waits(request: Json, number: int) -> Any:
        await met.wait()
        return judge(request, number)

    async with ScriptedEndpoint(waits) as endpoint:
        environment = environment_of(endpoint.base_url)
        rows = await rows_of(environment, each=4)
        begun = [environment() for _ in range(4)]
        for episode, row, text in zip(begun, rows, ANSWERS, strict=True):
            episode.reset(**row)
            if text:
                episode.answer("a first thought")
                assert "submitted" in episode.answer(text)
        rewards = [await episode.get_reward() for episode in begun]
        assert rewards == await ours(endpoint.base_url, rows[0]["uid"], ANSWERS)
        assert [None if each.rewarded is None else each.rewarded.is_invalid for each in begun] == [
            False,
            False,
            True,
            False,
        ]


async def test_an_answer_that_comes_after_the_judgment_of_others_is_judged(url: str) -> None:
    """Trainers that do not sample in batches ask for a reward while other rollouts are under way."""
    environment = environment_of(url)
    rows = await rows_of(environment, each=2)
    begun = [environment(), environment()]
    for episode, row in zip(begun, rows, strict=True):
        episode.reset(**row)
    rewards = []
    for episode, text in zip(begun, ANSWERS[:2], strict=True):
        episode.answer(text)
        rewards.append(await episode.get_reward())
    assert rewards == await ours(url, rows[0]["uid"], ANSWERS[:2])


async def test_compared_among_other_environments_on_several_processes_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process without such a row would never come to give its part."""
    monkeypatch.setattr("judgegym_trainers.trl.environment.find_distributed", lambda: object())
    environment = environment_of(url, ARENA, group_judge="listwise", group_size=2)
    (row,) = await rows_of(environment, each=1)
    episode = environment()
    episode.reset(
        **{name: cell for name, cell in row.items() if name != "environment"}
    )  # as TRL does
    with pytest.raises(SettingsError, match=r"environment_factory: .*several processes"):
        await episode.get_reward()


async def test_what_is_open_is_closed_when_the_training_ends(url: str) -> None:
    trainer, environment = Trainer(), environment_of(url)
    rows = await rows_of(environment, each=4)
    given = {**columns_of(rows), "log_metric": trainer.log_metric}
    first = await environment.reward(["Q"] * 4, ANSWERS, **given)
    await environment.reward(["Q"] * 4, ANSWERS, **given)
    (callback,) = trainer.callback_handler.callbacks
    await asyncio.to_thread(callback.on_evaluate)
    assert len(single_turn._OPENED) == 1
    await asyncio.to_thread(callback.on_train_end)
    assert not single_turn._OPENED
    assert await environment.reward(["Q"] * 4, ANSWERS, **given) == first  # opened again
    await asyncio.to_thread(callback.on_evaluate)  # after the training
    assert not single_turn._OPENED


@pytest.mark.slow
async def test_what_is_open_is_closed_when_a_trainer_is_given_up(url: str) -> None:
    """As after a training that has raised, of which TRL tells nobody."""
    trainer, environment = Trainer(), environment_of(url)
    rows = await rows_of(environment, each=4)
    await environment.reward(["Q"] * 4, ANSWERS, **columns_of(rows), log_metric=trainer.log_metric)
    del trainer
    gc.collect()
    await nothing_open()
    episode = environment()
    episode.reset(**rows[0])
    await episode.get_reward()
    assert single_turn._OPENED
    del episode
    gc.collect()
    await nothing_open()


SCRIPT = """
import asyncio
from judgegym_trainers.trl import judge_environment

class Trainer:
    num_generations = 4
    class callback_handler:
        callbacks = []
    def log_metric(self, name, value): ...
    def add_callback(self, callback): ...

def main():
    trainer, arena = Trainer(), judge_environment("arena_hard", offline=True)
    columns = {"uid": [arena.rows()[0]["uid"]] * 4, "log_metric": trainer.log_metric}
    asyncio.run(arena.reward(["Q"] * 4, list("abcd"), **columns))

main()
"""


@pytest.mark.slow
def test_a_script_that_ends_while_its_trainer_is_given_up_says_nothing() -> None:
    """The process closes what is open, and cancels the thread that was about to."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=clean_environment()
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr


async def nothing_open() -> None:
    for _ in range(1000):
        if not single_turn._OPENED:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("an environment is still open")


@pytest.mark.parametrize(
    ("completion", "ids", "choice"),
    [
        ("text", [1, 7], Choice("text")),
        ("text", [1, 2], Choice("text", finish_reason=CUT_OFF)),
        ("text", None, Choice("text")),
        (
            [{"role": "assistant", "content": "4", "reasoning_content": "2 + 2"}],
            [7],
            Choice("4", "2 + 2"),
        ),
        ([{"role": "assistant", "content": [{"type": "text", "text": "4"}]}], [7], Choice("4")),
        (
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"function": {"name": "search"}}],
                },
                {"role": "tool", "content": "found"},
                {"role": "assistant", "content": "4"},
            ],
            [7],
            Choice("4"),
        ),
        (
            [{"role": "assistant", "content": "so:"}, {"role": "tool", "content": "found"}],
            [7],
            Choice(""),
        ),
        ([], [7], Choice("")),
    ],
)
def test_the_answer_in_a_completion(completion: Any, ids: list[int] | None, choice: Choice) -> None:
    assert read_choice(completion, ids, (7,)) == choice
