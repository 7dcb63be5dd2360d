"""One row of an evaluation: from its conversations to its sample."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from judgegym.engine.completions import Completion, Conversation
from judgegym.engine.records import Sample
from judgegym.environments.evaluate.evaluation import Evaluation
from judgegym.environments.evaluate.row import RowRunner
from judgegym.judges.core.judgment import CallRun, Judgment, Status
from judgegym.llm.errors import EndpointError, FailureKind, UserFailure
from tests.core.environments.words import Word, opened, speaking
from tests.scripted import Json, Meeting, Reply


async def finish(env: Any, word: Word) -> Sample[Any]:
    return await RowRunner(env).finish(word)


async def test_a_row_goes_from_its_conversations_to_its_sample() -> None:
    async with opened(speaking) as (env, endpoint):
        sample = await finish(env, Word("abc", "letters"))
    assert (sample.uid, sample.category, sample.question) == ("abc", "letters", "Say abc, forwards and backwards.")
    assert [each.answer for each in sample.completions] == ["abc", "cba"], "in the order of the conversations"
    assert (sample.score, sample.status, sample.finished) == (1.0, "ok", True)
    assert len(sample.run.policy_calls) == len(endpoint.requests) == 2
    assert sample.run.judge_calls == {"compare": CallRun(0.0, 1)}
    assert sample.run.seconds > 0


async def test_all_conversations_of_a_row_run_at_once() -> None:
    meeting = Meeting(2)

    async def waiting(request: Json, number: int) -> str:
        await meeting.wait()
        return speaking(request, number)

    async with opened(waiting) as (env, _):
        assert (await finish(env, Word("abc"))).score == 1.0


async def test_a_policy_that_never_answers_is_a_failed_row() -> None:
    async with opened(Reply(status=400, body={"error": {"message": "no such model"}})) as (env, endpoint):
        sample = await finish(env, Word("abc"))
    assert (sample.status, sample.score, sample.judgment, sample.completions) == ("policy_failed", None, None, ())
    assert not sample.finished
    assert sample.error is not None
    assert endpoint.base_url in sample.error
    assert "no such model" in sample.error


async def test_the_wrong_format_is_worth_the_score_for_it_and_is_not_judged() -> None:
    async with opened("no tags at all", "--env.thinking_mode=true") as (env, _):
        sample = await finish(env, Word("abc"))
    assert (sample.status, sample.score, sample.finished) == ("invalid_completion", -1.0, True)
    assert sample.judgment == Judgment(None, Status.INVALID_COMPLETION, explanation="no_open_tag")


@pytest.mark.parametrize("fault", [{"finish_reason": "length"}, {"thinking_fault": "no_close_tag"}])
async def test_where_the_policy_is_the_judge_no_verdict_is_read_in_a_broken_completion(
    fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    completions = (Completion("ab"), replace(Completion("ba"), **fault))
    said = iter(completions)

    async def complete(conversation: Conversation, verdict_at: object) -> tuple[Completion, CallRun]:
        return next(said), CallRun()

    async with opened(speaking) as (env, _):
        monkeypatch.setattr(type(env.config), "policy_is_judge", True)
        monkeypatch.setattr(env.clients.policy, "complete", complete)
        sample = await finish(env, Word("abc"))
    assert sample.judgment is not None
    assert (sample.judgment.detail.forwards, sample.judgment.detail.backwards) == ("ab", "")
    assert sample.completions == completions, "the sample has what the policy wrote"


async def test_an_evaluation_is_of_all_rows_or_of_those_that_the_limit_chooses() -> None:
    async with opened(speaking) as (env, _):
        assert [task.uid for task in Evaluation(env).tasks] == [f"eval-{number}" for number in range(8)]
    async with opened(speaking, "--limit=3") as (env, _):
        assert len(Evaluation(env).tasks) == 3


async def test_enough_rows_are_under_way_to_fill_both_endpoints() -> None:
    flags = ("--env.judge_max_concurrency=5", "--openai.num_requests_for_eval=7")
    async with opened(speaking, *flags) as (env, _):
        assert RowRunner(env).rows_in_flight >= 12


def one_conversation(env: Any, monkeypatch: pytest.MonkeyPatch, *said: str | Exception) -> None:
    """Let a row have one conversation, in which the user says these messages, one after the other."""

    async def follow_up(task: Word, completions: Any) -> str | None:
        if len(completions) > len(said):
            return None
        message = said[len(completions) - 1]
        if isinstance(message, Exception):
            raise message
        return message

    monkeypatch.setattr(env, "conversations", lambda task: [[{"role": "user", "content": f"Say {task.uid}."}]])
    monkeypatch.setattr(env, "follow_up", follow_up)


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_user_who_fails_fails_the_row_and_not_the_policy(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    down = EndpointError(FailureKind.BROKEN, endpoint="http://user", answer="no")
    async with opened(lambda request, number: f"answer {number} of the policy") as (env, endpoint):
        for error in (UserFailure("it says nothing"), down):
            one_conversation(env, monkeypatch, *["More."] * turns, error)
            sample = await finish(env, Word("abc"))
            assert (sample.status, sample.policy_error, sample.completions) == ("user_failed", None, ())
            assert (sample.score, sample.judgment, sample.error) == (None, None, f"the user: {error}")
            assert len(sample.run.policy_calls) == turns + 1
    assert len(endpoint.requests) == 2 * (turns + 1)


async def test_the_calls_of_turns_before_a_failed_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Reply(status=400, body={"error": {"message": "too long"}})
    first = "fine, thank you"
    async with opened(lambda request, _: first if len(request["messages"]) == 1 else refused) as (env, _):
        one_conversation(env, monkeypatch, "More.", "More.")
        sample = await finish(env, Word("abc"))
    assert (sample.status, sample.user_error) == ("policy_failed", None)
    assert len(sample.run.policy_calls) == 2
