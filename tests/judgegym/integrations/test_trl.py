"""TRL's reward functions: its calling convention, over a server and with the judge in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError

from judgegym.integrations.trl import close, combined_reward, judge_environment, judge_reward
from judgegym.llm.errors import SettingsError
from judgegym.server.settings import JudgeMount
from tests.listwise import judging
from tests.scripted import Json, Meeting, ScriptedEndpoint
from tests.server.running import asked, running

PROMPTS = [[{"role": "user", "content": f"Question {number // 2}?"}] for number in range(4)]
COMPLETIONS = [[{"role": "assistant", "content": text}] for text in ("good", "bad", "FAIL", "good")]


def judge(request: Json, number: int) -> str:
    response = asked(request).partition("### Response To Evaluate\n\n")[2]
    if response.startswith("FAIL"):
        return "I cannot say."
    return f"[FEEDBACK] Seen. [SCORE] {5 if response.startswith('good') else 1}"


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
        await close(reward)
        shown = [asked(request) for request in server.judge.bodies]
    assert scores == [1.0, 0.0, None, 1.0]
    assert reward.__name__ == "judge"
    assert extra["judge_status"] == ["ok", "ok", "unparsable", "ok"]
    assert metrics == {"judge_failed": 0.25, "judge_invalid": 0.0}
    assert all("### Score Rubric\n\nIs it good?" in text for text in shown)
    assert sum("### Reference Response\n\none" in text for text in shown) == 1
    assert sum("### Instruction\n\nQuestion 0?" in text for text in shown) == 2


async def test_plain_texts_and_an_empty_batch() -> None:
    async with running(judge=judge) as server:
        reward = judge_reward(server.url)
        assert await reward(["Q", "Q"], ["good", "bad"]) == [1.0, 0.0]
        assert await reward([], []) == []
        await close(reward)


async def test_judge_in_this_process_gives_scores() -> None:
    async with ScriptedEndpoint(judge) as endpoint:
        mount = JudgeMount(judge="rubric", judge_base_url=endpoint.base_url, judge_max_retries=0)
        reward = judge_reward(judge=mount)
        assert await reward(PROMPTS, COMPLETIONS) == [1.0, 0.0, None, 1.0]
        await close(reward)


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
        (2, ["Q1", "Q2"], "do not belong to one row"),
        (3, ["Q"] * 4, "4 completions cannot be split into groups of 3"),
        (2, ["Q"] * 4, "num_generations, which is 4, found 2"),
    ],
)
async def test_groups_of_another_size_than_told_are_refused(size: int, prompts: list[str], said: str) -> None:
    class Trainer:
        num_generations = 4

        def log_metric(self, name: str, value: float) -> None: ...

    reward = judge_reward("http://127.0.0.1:1", group_size=size)
    loggers: dict[str, object] = {"log_metric": Trainer().log_metric} if "which is" in said else {}
    with pytest.raises(SettingsError, match=said):
        await reward(prompts, ["answer"] * len(prompts), **loggers)


def test_a_group_of_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="2 or more"):
        judge_reward("http://127.0.0.1:1", group_size=1)


async def test_a_comparing_judge_without_a_group_size_is_refused_at_the_first_batch() -> None:
    async with running("--judge=choice") as server:
        reward = judge_reward(server.url)
        with pytest.raises(SettingsError, match="2 to 26"):
            await reward(["Q"] * 4, ["alone"] * 4)
        await close(reward)


def turns(found: str, answer: str) -> list[Json]:
    """A completion that calls a tool and answers by what it found."""
    call = {"type": "function", "function": {"name": "search", "arguments": {"for": "cats"}}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": found},
        {"role": "assistant", "content": answer},
    ]


POINTS = {"good": 0.9, "fair": 0.5, "poor": 0.25}


def last_word(text: str) -> str:
    return text.split()[-1]


def game(request: Json, number: int) -> str:
    """The answer that ends with the earlier of the three words wins."""
    order = list(POINTS)
    first, other = (
        order.index(last_word(asked(request).partition(f"Start of Assistant {name}'s")[2].partition("<|The End")[0]))
        for name in "AB"
    )
    return "[[A>B]]" if first < other else "[[B>A]]"


async def test_a_listwise_judge_scores_completions_with_tool_calls() -> None:
    completions = [turns("two cats", text) for text in ("fair", "good", "poor")]
    judge = judging(lambda text, _: POINTS[last_word(text)])
    async with running("--judge=listwise", judge=judge) as server:
        reward = judge_reward(server.url, group_size=3)
        scores = await reward([[{"role": "user", "content": "Q"}]] * 6, [*completions, *reversed(completions)])
        await close(reward)
        shown = [asked(request) for request in server.judge.bodies]
    assert scores == [0.5, 0.9, 0.25, 0.25, 0.9, 0.5]
    for text in shown:  # what all of a group say is there once
        assert text.count('[tool call: search({"for":"cats"})]') == text.count("two cats") == 1


async def test_a_tournament_scores_completions_with_tool_calls() -> None:
    completions = [turns(f"{number} cats", text) for number, text in enumerate(("fair", "good", "poor"))]
    async with running("--judge=tournament", judge=game) as server:
        reward = judge_reward(server.url, group_size=3)
        fair, good, poor = await reward(["Q"] * 3, completions)
        await close(reward)
    assert good is not None and fair is not None and poor is not None
    assert good > fair > poor
    assert len(server.judge.requests) == 6


async def test_a_judge_of_groups_in_this_process_needs_the_size_of_a_group() -> None:
    async with ScriptedEndpoint(judging(lambda text, _: POINTS[text])) as endpoint:
        settings = {"judge": "listwise", "judge_base_url": endpoint.base_url, "judge_model_name": "m"}
        reward = judge_reward(judge=settings, group_size=2)
        assert await reward(["Q"] * 4, ["good", "poor", "fair", "good"]) == [0.9, 0.25, 0.5, 0.9]
        await close(reward)
    for judge in (settings, JudgeMount(judge="tournament")):
        with pytest.raises(SettingsError, match=r"group_size: .* num_generations"):
            judge_reward(judge=judge)


async def test_the_whole_batch_is_judged_at_the_same_time() -> None:
    met = Meeting(4)

    async def waits(request: Json, number: int) -> str:
        await met.wait()
        return "[FEEDBACK] Seen. [SCORE] 5"

    async with running(judge=waits) as server:
        reward = judge_reward(server.url)
        assert await reward(["Q"] * 4, ["a", "b", "c", "d"]) == [1.0] * 4
        await close(reward)


async def test_groups_are_judged_at_the_same_time() -> None:
    met = Meeting(2)

    async def waits(request: Json, number: int) -> str:
        await met.wait()
        return "[[A]]"

    async with running("--judge=choice", judge=waits) as server:
        reward = judge_reward(server.url, group_size=2)
        assert sorted(await reward(["Q"] * 4, ["a", "b", "c", "d"])) == [0.0, 0.0, 1.0, 1.0]
        await close(reward)


async def test_aspects_of_a_column_are_asked() -> None:
    """A judge that says yes: the server's own aspect passes this answer, the row's does not."""
    yes = '{"reason": "since", "verdict": 1}'
    async with running("--judge=aspect", '--aspects=["coherence"]', judge=yes) as server:
        reward = judge_reward(server.url)
        with_column = await reward(["Q"] * 2, ["answer"] * 2, aspects=[["harmfulness"], "harmfulness"])
        without = await reward(["Q"], ["answer"])
        await close(reward)
    assert with_column == [0.0, 0.0]
    assert without == [1.0]


async def test_cells_of_other_types_become_text_or_leave_the_row_without_a_score(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(judge=judge) as server:
        reward = judge_reward(server.url)
        columns = {"reference": [1.5, ["a"], None, b"no text"], "rubric": ["Good?", "Good?", 5, "Good?"]}
        scores = await reward(["Q"] * 4, ["good"] * 4, **columns)
        assert await reward(["Q"], ["good"], reference=[b"no text"]) == [None]
        await close(reward)
        shown = "".join(asked(request) for request in server.judge.bodies)
    assert scores == [1.0, 1.0, 1.0, None]
    assert "### Reference Response\n\n1.5" in shown
    assert "### Reference Response\n\n['a']" in shown
    (record,) = (record for record in caplog.records if "cannot be judged" in record.message)
    assert "reference: expected text, found bytes" in record.message


async def test_a_row_that_the_judge_refuses_has_no_score_and_the_others_have_theirs() -> None:
    rubrics = [{"criteria": "Good?", "score99_description": "A level that this scale has not."}, "Good?"]
    async with running(judge=judge) as server:
        reward = judge_reward(server.url)
        assert await reward(["Q"] * 2, ["good"] * 2, rubric=rubrics) == [None, 1.0]
        await close(reward)


async def test_an_empty_completion_is_a_wrong_answer_and_costs_no_call() -> None:
    turn = [{"role": "assistant", "content": None}]
    metrics: dict[str, float] = {}
    async with running() as server:
        reward = judge_reward(server.url)
        scores = await reward(["Q"] * 2, ["", turn], log_metric=lambda name, value: metrics.update({name: value}))
        await close(reward)
    assert scores == [0.0, 0.0]
    assert metrics == {"judge_failed": 0.0, "judge_invalid": 1.0}
    assert server.judge.requests == []


async def test_calls_of_tools_are_shown_to_the_judge() -> None:
    call = {"type": "function", "function": {"name": "search", "arguments": {"for": "cats"}}}
    turns = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "two cats"},
        {"role": "assistant", "content": "good"},
    ]
    async with running() as server:
        reward = judge_reward(server.url)
        assert await reward(["Q"], [turns]) == [0.75]
        await close(reward)
        (request,) = server.judge.bodies
    for shown in ('[tool call: search({"for":"cats"})]', "two cats", "good"):
        assert shown in asked(request)


@pytest.mark.parametrize(("mount", "token"), [("no-such-judge", None), ("", "wrong")])
async def test_a_mount_or_a_token_that_is_wrong_ends_the_training(mount: str, token: str | None) -> None:
    flags = ['--tokens={"trainer": "right"}'] if token else []
    async with running(*flags) as server:
        reward = judge_reward(server.url, mount=mount, token=token)
        with pytest.raises(SettingsError, match=r"HTTP 40[14]"):
            await reward(["Q"], ["answer"])
        await close(reward)


def test_each_batch_in_an_event_loop_of_its_own() -> None:
    async def whole() -> tuple[str, list[list[float | None]]]:
        async with running(judge=judge) as server:
            reward = judge_reward(server.url)

            def batch() -> list[float | None]:
                async def once() -> list[float | None]:
                    try:
                        return await reward(["Q"], ["good"])
                    finally:
                        await close(reward)

                return asyncio.run(once())

            return server.url, [await asyncio.to_thread(batch) for _ in range(3)]

    assert asyncio.run(whole())[1] == [[1.0]] * 3


def test_misspelt_setting_of_a_judge_is_refused() -> None:
    with pytest.raises(ValidationError, match="judge_temprature"):
        JudgeMount(judge="rubric", judge_temprature=0.1)
    with pytest.raises(SettingsError, match=r"judge\.judge_temprature: .* did you mean judge_temperature"):
        judge_reward(judge={"judge": "rubric", "judge_temprature": 0.1})


def test_neither_or_both_sources_are_refused() -> None:
    with pytest.raises(SettingsError, match="either"):
        judge_reward()
    with pytest.raises(SettingsError, match="either"):
        judge_reward("http://127.0.0.1:1", judge=JudgeMount())


@pytest.mark.parametrize("url", ["127.0.0.1:8400", "ftp://host", "http://", "http://[::1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="url: expected"):
        judge_reward(url)


def test_a_mount_of_a_judge_in_this_process_is_refused() -> None:
    with pytest.raises(SettingsError, match="mount: only with url"):
        judge_reward(judge=JudgeMount(), mount="safety")


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
        reward = combined_reward([judge_reward(server.url, name="good"), short, polite], weights=[2.0, 1.0, -1.0])
        completions = ["good", "badly written", "FAIL", "", "?"]
        scores = await reward(prompts=["Q"] * 5, completions=completions, **loggers)
        await close(reward)
    assert scores == [2.75, -0.25, None, None, None]
    assert extra["good"] == [1.0, 0.0, None, 0.0, 0.0]
    assert extra["short"] == [1.0, 0.0, 1.0, None, 1.0]
    assert metrics["rewards/good/mean"] == 0.25
    assert (metrics["rewards/short/mean"], metrics["rewards/polite/mean"]) == (0.75, 0.25)


@pytest.mark.parametrize(
    ("functions", "keywords", "said"),
    [
        ([], {}, "functions: expected functions with names"),
        ([short, short], {}, "names of their own, found short, short"),
        ([short], {"name": "short"}, "names of their own"),
        ([short, polite], {"weights": [1.0]}, "expected one for each of 2"),
        ([short], {"weights": [float("inf")]}, "weight of short: expected a finite number"),
        (
            [judge_environment(name, offline=True).reward for name in ("arena_hard", "self_critique")],
            {},
            "expected those of one environment, found arena_hard, self_critique",
        ),
    ],
)
def test_functions_that_cannot_be_combined_are_refused(functions: Any, keywords: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        combined_reward(functions, **keywords)


class SummingTrainer:
    """A trainer with several reward functions, as TRL's RLOO trainer, which has one way to add them up."""

    def __init__(self, *functions: Any, **further: Any) -> None:
        self.reward_funcs = list(functions)
        vars(self).update(further)

    def log_metric(self, name: str, value: float) -> None:
        """Log nothing."""


SUM, GDPO = {"multi_objective_aggregation": "sum_then_normalize"}, {"multi_objective_aggregation": "normalize_then_sum"}
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
        ([CRITIQUE], SUM, ["arena_hard", "self_critique"], False),  # each scores rows of its own
        ([COMBINED], SUM, ["arena_hard", "self_critique"], False),
        ([CRITIQUE], SUM, None, True),
        ([CRITIQUE, short], SUM, ["arena_hard", "self_critique"], True),
        ([ARENA], SUM, ["arena_hard", "arena_hard"], True),
    ],
)
async def test_a_function_whose_failures_would_count_as_0_is_refused(
    others: list[Any], further: Any, environments: list[str] | None, is_refused: bool
) -> None:
    """A batch of rows of which none is `arena_hard`'s: those that are let through have no score, and need no judge."""
    trainer = SummingTrainer(ARENA, *others, **further)
    columns: dict[str, Any] = {"uid": [None, None], "log_metric": trainer.log_metric}
    columns |= {} if environments is None else {"environment": environments}
    if is_refused:
        with pytest.raises(SettingsError, match=r"reward_funcs: SummingTrainer adds up .*combined_reward"):
            await ARENA(["Q", "Q"], ["a", "b"], **columns)
    else:
        assert await ARENA(["Q", "Q"], ["a", "b"], **columns) == [None, None]
