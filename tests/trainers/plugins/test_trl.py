"""TRL's reward functions: its calling convention, over a server and with the judge in this process."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from aiohttp import web

from judgegym.llm.errors import SettingsError
from judgegym.server.settings import JudgeMount
from judgegym_trainers.scores.results import NoRewardError
from judgegym_trainers.trl import close, combined_reward, judge_environment, judge_reward
from tests.core.server.running import asked, running
from tests.scripted import Json, Meeting
from tests.trainers.judges import good_or_bad as judge
from tests.trainers.plugins.scoring_server import answering

PROMPTS = [[{"role": "user", "content": f"Question {number // 2}?"}] for number in range(4)]
COMPLETIONS = [[{"role": "assistant", "content": text}] for text in ("good", "bad", "FAIL", "good")]


class Trainer:
    """A trainer that logs nothing."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def log_metric(self, name: str, value: float) -> None: ...


@pytest.mark.slow
async def test_failed_judge_has_the_score_none() -> None:
    extra: dict[str, list[Any]] = {}
    metrics: dict[str, float] = {}
    async with running(judge=judge) as server:
        reward = judge_reward(server.url)
        scores = await reward(
            PROMPTS,
            COMPLETIONS,
            completion_ids=[[1]] * 4,
            log_extra=lambda name, values: extra.update({name: values}),
            log_metric=lambda name, value: metrics.update({name: value}),
            reference_answer=["one", None, None, "four"],
            rubric=["Is it good?"] * 4,
            trainer_state=object(),
        )
        assert await reward([], []) == []
        await close(reward)
        shown = [asked(request) for request in server.judge.bodies]
    assert scores == [1.0, 0.0, None, 1.0]
    assert reward.__name__ == "judge"
    assert extra["judge_status"] == ["ok", "ok", "unparsable", "ok"]
    assert metrics == {"judge_failed": 0.25, "judge_invalid": 0.0}
    assert all("### Score Rubric\n\nIs it good?" in text for text in shown)
    assert sum("### Reference Response\n\none" in text for text in shown) == 1
    assert sum("### Instruction\n\nQuestion 0?" in text for text in shown) == 2


def best(request: Json, number: int) -> str:
    """A judge that chooses the response `good`, or, without one, the first."""
    text = asked(request)
    return "[[B]]" if "good" in text.partition("Start of Assistant B")[2] else "[[A]]"


async def test_groups_are_told_apart_by_position() -> None:
    """Also neighbours with equal prompts, as a dataset with a doubled row has them."""
    async with running("--judge=choice", judge=best) as server:
        reward = judge_reward(server.url, group_size=2)
        scores = await reward(["Q", "Q", "Q", "Q"], ["good", "x", "y", "good"])
        await close(reward)
    assert scores == [1.0, 0.0, 0.0, 1.0]
    assert len(server.judge.requests) == 2


@pytest.mark.parametrize(
    ("size", "prompts", "said"),
    [
        (2, ["Q1", "Q2"], r"completions \d to \d .*one row"),
        (3, ["Q"] * 4, "4 completions .*groups of 3"),
        (2, ["Q"] * 4, "num_generations, which is 4, found 2"),
    ],
)
async def test_groups_of_another_size_than_told_are_refused(
    size: int, prompts: list[str], said: str
) -> None:
    reward = judge_reward("http://127.0.0.1:1", group_size=size)
    loggers: dict[str, object] = (
        {"log_metric": Trainer(num_generations=4).log_metric} if "which is" in said else {}
    )
    with pytest.raises(SettingsError, match=said):
        await reward(prompts, ["answer"] * len(prompts), **loggers)


def test_a_judge_of_groups_needs_the_size_of_a_group() -> None:
    judge = JudgeMount(judge="tournament")
    with pytest.raises(SettingsError, match=r"group_size: .* num_generations"):
        judge_reward(judge=judge)
    with pytest.raises(SettingsError, match="2 or more"):
        judge_reward(judge=judge, group_size=1)


@pytest.mark.parametrize(
    ("kind", "size", "scores"), [("rubric", None, [1.0] * 4), ("choice", 2, [0.0, 0.0, 1.0, 1.0])]
)
async def test_the_whole_batch_is_judged_at_the_same_time(
    kind: str, size: int | None, scores: list[float]
) -> None:
    met = Meeting(4 // (size or 1))

    async def waits(request: Json, number: int) -> str:
        await met.wait()
        return "[FEEDBACK] Seen. [SCORE] 5" if kind == "rubric" else "[[A]]"

    async with running(f"--judge={kind}", judge=waits) as server:
        reward = judge_reward(server.url, group_size=size)
        assert sorted(await reward(["Q"] * 4, ["a", "b", "c", "d"])) == scores
        await close(reward)


async def test_aspects_of_a_column_are_asked() -> None:
    """A judge that says yes: the server's own aspect passes this answer, the row's does not."""
    yes = '{"reason": "since", "verdict": 1}'
    async with running("--judge=aspect", '--aspects=["coherence"]', judge=yes) as server:
        reward = judge_reward(server.url)
        with_column = await reward(
            ["Q"] * 2, ["answer"] * 2, aspects=[["harmfulness"], "harmfulness"]
        )
        without = await reward(["Q"], ["answer"])
        await close(reward)
    assert with_column == [0.0, 0.0]
    assert without == [1.0]


async def test_cells_of_other_types_become_text_or_leave_the_row_without_a_score(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(judge=judge) as server:
        reward = judge_reward(server.url)
        columns = {
            "reference": [1.5, ["a"], None, b"no text"],
            "rubric": ["Good?", "Good?", 5, "Good?"],
        }
        scores = await reward(["Q"] * 4, ["good"] * 4, **columns)
        assert await reward(["Q"], ["good"], reference=[b"no text"]) == [None]
        await close(reward)
        shown = "".join(asked(request) for request in server.judge.bodies)
    assert scores == [1.0, 1.0, 1.0, None]
    assert "### Reference Response\n\n1.5" in shown
    assert "### Reference Response\n\n['a']" in shown
    (record,) = (record for record in caplog.records if "cannot be judged" in record.message)
    assert "reference: expected text, found bytes" in record.message


async def test_an_empty_completion_is_a_wrong_answer_and_costs_no_call() -> None:
    turn = [{"role": "assistant", "content": None}]
    metrics: dict[str, float] = {}
    async with running() as server:
        reward = judge_reward(server.url)
        scores = await reward(
            ["Q"] * 2, ["", turn], log_metric=lambda name, value: metrics.update({name: value})
        )
        await close(reward)
    assert scores == [0.0, 0.0]
    assert metrics == {"judge_failed": 0.0, "judge_invalid": 1.0}
    assert server.judge.requests == []


def short(prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
    """A reward function of a user: 1 for a short text, and no score for an empty one."""
    return [None if not text else float(len(text) < 5) for text in completions]


async def polite(prompts: Any, completions: Any, **columns: Any) -> list[float]:
    """Another one, which has NaN for a text that it cannot read."""
    return [float("nan") if text == "?" else 0.25 for text in completions]


async def test_a_combined_function_has_no_score_where_a_part_has_none() -> None:
    metrics: dict[str, float] = {}
    extra: dict[str, list[Any]] = {}
    loggers = {
        "log_extra": lambda name, values: extra.update({name: values}),
        "log_metric": lambda name, value: metrics.update({name: value}),
    }
    async with running(judge=judge) as server:
        reward = combined_reward(
            [judge_reward(server.url, name="good"), short, polite], weights=[2.0, 1.0, -1.0]
        )
        completions = ["good", "badly written", "FAIL", "", "?"]
        scores = await reward(prompts=["Q"] * 5, completions=completions, **loggers)
        await close(reward)
    assert scores == [2.75, -0.25, None, None, None]
    assert extra["good"] == [1.0, 0.0, None, 0.0, 0.0]
    assert extra["short"] == [1.0, 0.0, 1.0, None, 1.0]
    assert metrics["rewards/good/mean"] == 0.25
    assert (metrics["rewards/short/mean"], metrics["rewards/polite/mean"]) == (0.75, 0.25)


async def test_an_infinite_score_or_sum_is_none_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """TRL would make NaN of the advantages of the whole group."""

    def logarithm(prompts: Any, completions: list[str], **columns: Any) -> list[float]:
        return [
            {"none": -math.inf, "much": 1e308, "two": -math.inf}.get(text, 0.5)
            for text in completions
        ]

    def other(prompts: Any, completions: list[str], **columns: Any) -> list[float]:
        return [{"much": 1e308, "two": math.inf}.get(text, 0.25) for text in completions]

    for weights in ([1.0, 1.0], [10.0, 1.0]):
        reward = combined_reward([logarithm, other], weights=weights)
        rewards = await reward(["Q"] * 4, ["none", "much", "two", "fine"])
        assert rewards == [None, None, None, 0.5 * weights[0] + 0.25]
    said = [record.getMessage().partition(":")[0] for record in caplog.records]
    assert sorted(said) == ["combined", "logarithm", "other"]


@pytest.mark.parametrize(
    ("functions", "keywords", "said"),
    [
        ([], {}, "functions: .*names .*found none"),
        ([short, short], {}, "functions: .*names .*found short, short"),
        ([short], {"name": "short"}, "functions: .*names .*found short$"),
        ([short, polite], {"weights": [1.0]}, "weights: .*each of 2 functions, found 1"),
        ([short], {"weights": [float("inf")]}, "weight of short: .*finite number"),
        (
            [
                judge_environment(name, offline=True).reward
                for name in ("arena_hard", "self_critique")
            ],
            {},
            "one environment, found arena_hard, self_critique",
        ),
    ],
)
def test_functions_that_cannot_be_combined_are_refused(
    functions: Any, keywords: Any, said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        combined_reward(functions, **keywords)


SUM, GDPO = (
    {"multi_objective_aggregation": "sum_then_normalize"},
    {"multi_objective_aggregation": "normalize_then_sum"},
)
ARENA = judge_environment("arena_hard", offline=True).reward
CRITIQUE = judge_environment("self_critique", offline=True).reward
COMBINED = combined_reward([CRITIQUE, short])


@pytest.mark.parametrize(
    ("others", "further", "environments", "is_refused"),
    [
        ([short], {}, None, True),
        ([short], SUM, None, True),
        ([short], GDPO, None, False),
        ([], SUM, None, False),
        ([short], {"reward_weights": [0.0, 1.0]}, None, False),
        ([short], {"reward_weights": [1.0, 0.0]}, None, True),
        ([COMBINED], SUM, ["arena_hard", "self_critique"], False),  # each scores rows of its own
        ([CRITIQUE], SUM, None, True),
        ([CRITIQUE, short], SUM, ["arena_hard", "self_critique"], True),
        ([ARENA], SUM, ["arena_hard", "arena_hard"], True),
    ],
)
async def test_a_function_whose_failures_would_count_as_0_is_refused(
    others: list[Any], further: Any, environments: list[str] | None, is_refused: bool
) -> None:
    """A batch of rows of which none is `arena_hard`'s: those that are let through have no score, and need no judge."""
    trainer = Trainer(
        reward_funcs=[ARENA, *others], **further
    )  # without a rule, as TRL's RLOO trainer
    columns: dict[str, Any] = {"uid": [None, None], "log_metric": trainer.log_metric}
    columns |= {} if environments is None else {"environment": environments}
    if is_refused:
        with pytest.raises(SettingsError, match=r"reward_funcs: Trainer adds up .*combined_reward"):
            await ARENA(["Q", "Q"], ["a", "b"], **columns)
    else:
        assert await ARENA(["Q", "Q"], ["a", "b"], **columns) == [None, None]


async def test_reward_functions_pickle_with_their_names_and_open_again() -> None:
    """TRL's asynchronous trainer sends them to a process of its own."""
    async with running(judge=judge) as server:
        served = judge_reward(server.url, name="helpful")
        here = judge_reward(judge=JudgeMount(judge="rubric", judge_base_url=server.judge.base_url))
        combined = combined_reward([served, short], weights=[2.0, 1.0])
        assert await served(["Q"], ["good"]) == [1.0]
        for reward, expected in ((served, [1.0, 0.0]), (here, [1.0, 0.0]), (combined, [3.0, 0.0])):
            copy = pickle.loads(pickle.dumps(reward))
            assert copy.__name__ == reward.__name__
            assert await copy(["Q"] * 2, ["good", "badly written"]) == expected
            await close(copy)
        await close(served)
    environment = pickle.loads(pickle.dumps(judge_environment("arena_hard", offline=True)))
    assert (
        pickle.loads(pickle.dumps(environment.reward)).__name__ == environment.name == "arena_hard"
    )


class Worker:
    """What TRL's `AsyncRolloutWorker` does with its arguments when it starts."""

    def __init__(self, **loop_kwargs: Any) -> None:
        self._loop_kwargs = loop_kwargs

    def start(self) -> None:
        pickle.dumps(self._loop_kwargs)


class Rows:
    """A data set of rows that say whose they are."""

    column_names = ("prompt", "environment")


@pytest.mark.parametrize(
    ("functions", "further", "is_refused"),
    [
        ([ARENA], {}, False),
        ([COMBINED], {}, False),
        ([ARENA, short], {}, True),
        ([ARENA, CRITIQUE], {}, True),
        ([ARENA, CRITIQUE], {"dataset": Rows()}, False),  # each scores rows of its own
        ([short], {"environment_factory": judge_environment("arena_hard", offline=True)}, True),
        ([], {"environment_factory": judge_environment("arena_hard", offline=True)}, False),
    ],
)
def test_a_function_whose_failures_the_asynchronous_trainer_would_count_as_0_is_refused(
    functions: list[Any], further: Any, is_refused: bool
) -> None:
    worker = Worker(reward_funcs=functions, **further)
    if is_refused:
        with pytest.raises(
            SettingsError,
            match=r"reward_funcs: .*asynchronous trainer .*combined_reward",
        ):
            worker.start()
    else:
        worker.start()


async def test_a_judge_that_is_down_ends_the_training_after_32_failures_or_two_groups() -> None:
    async def failing(request: web.Request) -> web.Response:
        return web.json_response(
            {"score": None, "status": "judge_failed", "explanation": "out of order"}
        )

    async with answering(failing) as url:
        for size, batches in ((4, 4), (24, 6)):
            trainer, reward = Trainer(num_generations=size), judge_reward(url)
            batch = (["Q"] * 8, ["good"] * 8)
            for _ in range(batches - 1):
                assert await reward(*batch, log_metric=trainer.log_metric) == [None] * 8
            with pytest.raises(
                NoRewardError, match=f"failed for {8 * batches} samples .*out of order"
            ):
                await reward(*batch, log_metric=trainer.log_metric)
