"""The contract, shown on a small environment: two conversations for each row, a judge that is a function."""

import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from environments.base import JudgedEnv
from environments.command_line.arguments import load_settings
from environments.completions import Completion, Conversation
from environments.data.rows import Split
from environments.metrics import MetricAggregator
from environments.records import Sample, SampleRun
from environments.settings import EnvConfig
from judges.core.judgment import CallRun, JudgeCall, Judgment, Status
from judges.llm.transport import open_session
from judges.llm.wire import Message
from tests.scripted import Json, Meeting, Reply, Script, ScriptedEndpoint


@dataclass(frozen=True)
class Word:
    uid: str
    category: str | None = None

    @property
    def question(self) -> str:
        return f"Say {self.uid}, forwards and backwards."


@dataclass(frozen=True)
class Said:
    forwards: str
    backwards: str


class WordsEnv(JudgedEnv[EnvConfig, Word, Said]):
    """Is what was said backwards the mirror of what was said forwards?"""

    name = "words"
    config_type = EnvConfig
    detail_type = Said
    headline = ("right", "right")
    invalid_completion_score = -1.0
    asked_of_the_judge: list[str]

    def tasks(self, split: Split) -> Sequence[Word]:
        return [Word(f"{split}-{number}") for number in range(8)]

    def conversations(self, task: Word) -> list[Conversation]:
        return [[Message(role="user", content=f"{way}: {task.uid}")] for way in ("forwards", "backwards")]

    async def judge(self, task: Word, completions: Sequence[Completion]) -> Judgment[Said]:
        forwards, backwards = completions
        if not (forwards.valid and backwards.valid):
            return Judgment(None, Status.INVALID_COMPLETION)
        right = forwards.answer == backwards.answer[::-1]
        calls = (JudgeCall("compare", "", None, None, None, CallRun(0.0, 1)),)
        return Judgment(float(right), Status.OK, str(right), "", calls, Said(forwards.answer, backwards.answer))

    def reward(self, judgment: Judgment[Said]) -> float:
        assert judgment.score is not None
        return judgment.score

    def observe(self, metrics: MetricAggregator, task: Word, sample: Sample[Said]) -> None:
        metrics.mean("right", sample.score or 0.0)


def speaking(request: Json, number: int) -> str:
    """A policy that does as it is told."""
    way, _, word = request["messages"][-1]["content"].partition(": ")
    return word if way == "forwards" else word[::-1]


Opened = Callable[..., AbstractAsyncContextManager[tuple[WordsEnv, ScriptedEndpoint]]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """The environment with its policy at a scripted endpoint."""

    @asynccontextmanager
    async def open_env(script: Script | Reply | str, *flags: str) -> AsyncIterator[tuple[WordsEnv, ScriptedEndpoint]]:
        async with ScriptedEndpoint(script) as endpoint, open_session() as session:
            urls = [f"--env.judge_base_url={endpoint.base_url}", f"--openai.base_url={endpoint.base_url}"]
            quick = ["--env.retry_delay=0", "--env.min_response_length=0"]
            settings = load_settings(WordsEnv, [*urls, *quick, *flags], verb="evaluate").settings
            env = WordsEnv(settings, session)
            try:
                yield env, endpoint
            finally:
                await env.close()

    return open_env


async def test_a_row_from_its_conversations_to_its_sample(opened: Opened) -> None:
    async with opened(speaking) as (env, endpoint):
        sample = await env.finish(Word("abc", "letters"))
    assert (sample.uid, sample.category, sample.question) == ("abc", "letters", "Say abc, forwards and backwards.")
    assert [each.answer for each in sample.completions] == ["abc", "cba"], "in the order of the conversations"
    assert (sample.score, sample.status, sample.finished) == (1.0, "ok", True)
    assert len(sample.run.policy_calls) == len(endpoint.requests) == 2
    assert sample.run.judge_calls == {"compare": CallRun(0.0, 1)}
    assert sample.run.seconds > 0


async def test_all_conversations_of_a_row_run_at_once(opened: Opened) -> None:
    meeting = Meeting(2)

    async def waiting(request: Json, number: int) -> str:
        await meeting.wait()
        return speaking(request, number)

    async with opened(waiting) as (env, _):
        assert (await env.finish(Word("abc"))).score == 1.0


async def test_completions_that_an_earlier_run_paid_for_are_used_again(opened: Opened) -> None:
    runs = (CallRun(1.0, 3), CallRun(2.0, 1))
    completions = (Completion("ab"), Completion("ba"))
    failed = Judgment[Said](None, Status.JUDGE_FAILED)
    earlier = Sample("abc", None, "?", completions, failed, None, SampleRun(9.0, runs))
    async with opened(Reply(status=500)) as (env, endpoint):
        sample = await env.finish(Word("abc"), earlier)
    assert endpoint.requests == []
    assert (sample.completions, sample.run.policy_calls, sample.score) == (completions, runs, 1.0)


async def test_a_row_whose_policy_failed_before_is_asked_again(opened: Opened) -> None:
    earlier = Sample[Said]("abc", None, "?", (), None, None, SampleRun(9.0), policy_error="down")
    async with opened(speaking) as (env, endpoint):
        sample = await env.finish(Word("abc"), earlier)
    assert len(endpoint.requests) == 2
    assert sample.score == 1.0


async def test_a_policy_that_never_answers_is_a_failed_row(opened: Opened) -> None:
    async with opened(Reply(status=400, body={"error": {"message": "no such model"}})) as (env, endpoint):
        sample = await env.finish(Word("abc"))
    assert (sample.status, sample.score, sample.judgment, sample.completions) == ("policy_failed", None, None, ())
    assert not sample.finished
    assert sample.error is not None
    assert endpoint.base_url in sample.error
    assert "no such model" in sample.error


async def test_the_wrong_format_is_worth_the_worst_score(opened: Opened) -> None:
    async with opened("no tags at all", "--env.thinking_mode=true") as (env, _):
        sample = await env.finish(Word("abc"))
    assert (sample.status, sample.score, sample.finished) == ("invalid_completion", -1.0, True)


async def test_the_rows_of_an_evaluation(opened: Opened) -> None:
    async with opened(speaking) as (env, _):
        assert [task.uid for task in env.eval_tasks()] == [f"eval-{number}" for number in range(8)]
    async with opened(speaking, "--limit=3") as (env, _):
        assert len(env.eval_tasks()) == 3


async def test_training_sees_each_row_once_an_epoch_in_an_order_of_the_seed(opened: Opened) -> None:
    async def order(*flags: str) -> list[str]:
        async with opened(speaking, *flags) as (env, _):
            return [(await env.get_next_item()).uid for _ in range(24)]

    first = await order()
    rows = sorted(f"train-{number}" for number in range(8))
    assert [sorted(first[start : start + 8]) for start in (0, 8, 16)] == [rows] * 3
    assert len({tuple(first[start : start + 8]) for start in (0, 8, 16)}) > 1
    assert await order() == first
    assert await order("--env.seed=1") != first


async def test_enough_rows_are_under_way_to_fill_both_endpoints(opened: Opened) -> None:
    flags = ("--env.judge_max_concurrency=5", "--openai.num_requests_for_eval=7")
    async with opened(speaking, *flags) as (env, _):
        assert env.rows_in_flight >= 12


def test_an_environment_has_a_command_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["words.py", "evaluate", "--show_config"])
    with pytest.raises(SystemExit) as leaving:
        WordsEnv.cli()
    assert leaving.value.code == 0
    assert "judge_protocol" not in capsys.readouterr().out, "that is Arena-Hard's"


def test_what_a_subclass_must_answer() -> None:
    unanswered: Mapping[str, Any] = dict.fromkeys(JudgedEnv.__abstractmethods__)
    assert set(unanswered) >= {"tasks", "conversations", "judge", "reward", "observe"}
