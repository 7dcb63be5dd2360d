"""One row of an evaluation: from its conversations to its sample."""

from __future__ import annotations

from typing import Any

from judgegym.engine.records import Sample
from judgegym.environments.evaluate.row import RowRunner
from judgegym.judges.core.judgment import CallRun, Judgment, Status
from tests.core.environments.words import Word, opened, speaking


async def finish(env: Any, word: Word) -> Sample[Any]:
    return await RowRunner(env).finish(word)


async def test_a_row_goes_from_its_conversations_to_its_sample() -> None:
    async with opened(speaking) as (env, endpoint):
        sample = await finish(env, Word("abc", "letters"))
    assert (sample.uid, sample.category, sample.question) == (
        "abc",
        "letters",
        "Say abc, forwards and backwards.",
    )
    assert [each.answer for each in sample.completions] == ["abc", "cba"], (
        "in the order of the conversations"
    )
    assert (sample.score, sample.status, sample.finished) == (1.0, "ok", True)
    assert len(sample.run.policy_calls) == len(endpoint.requests) == 2
    assert sample.run.judge_calls == {"compare": CallRun(0.0, 1)}
    assert sample.run.seconds > 0


async def test_the_wrong_format_is_worth_the_score_for_it_and_is_not_judged() -> None:
    async with opened("no tags at all", "--env.thinking_mode=true") as (env, _):
        sample = await finish(env, Word("abc"))
    assert (sample.status, sample.score, sample.finished) == ("invalid_completion", -1.0, True)
    assert sample.judgment == Judgment(None, Status.INVALID_COMPLETION, explanation="no_open_tag")


async def test_enough_rows_are_under_way_to_fill_both_endpoints() -> None:
    flags = ("--env.judge_max_concurrency=5", "--openai.num_requests_for_eval=7")
    async with opened(speaking, *flags) as (env, _):
        assert RowRunner(env).rows_in_flight >= 12
