"""Rewards of rows in each of the five environments; `tests/conformance/test_rewards_elsewhere.py` has their values."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator

import pytest

from judgegym.llm import reachability
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import Choice
from judgegym_trainers.scores.requests import CompletionRow as Sample
from judgegym_trainers.scores.results import (
    INVALID_COMPLETION,
    JUDGE_FAILED,
    REFUSED_AT_START,
    RefusedError,
)
from judgegym_trainers.scores.sources import RewardScorer
from judgegym_trainers.single_turn import (
    EnvironmentScores,
    EnvironmentSource,
    OpenedEnvironment,
    close_all,
    get_environment,
)
from tests.scripted import Json, Reply, ScriptedEndpoint
from tests.trainers.loops.offline import OfflineJudge, offline_judge

TWO = ("arena_hard", "self_critique")
"""What holds for all environments is shown with one of one judge and one of several."""
GOOD = "You look at it for a while, and then you explain it by an example. [[A]]"
OTHER = "I would rather not say anything at all about what that is. [[B]]"


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()


async def open_at(url: str, name: str, **settings: object) -> OpenedEnvironment:
    judge = {
        "judge_base_url": url,
        "judge_model_name": "m",
        "judge_api_key": "k",
        "judge_max_retries": 0,
    }
    given = {**({} if name == "pairwise_judgement" else judge), **settings}
    return await asyncio.to_thread(
        get_environment, EnvironmentSource.from_settings(name, given, offline=True)
    )


@pytest.mark.parametrize("name", (*TWO, "pairwise_judgement"))
async def test_rows_can_be_asked_and_answers_have_finite_rewards_and_metrics(name: str) -> None:
    async with offline_judge() as (url, _):
        environment = await open_at(url, name)
        rows = list(environment.rows())
        assert [row.uid for row in rows] == list(environment.uids) and len(rows) == len(
            environment
        ) > 5
        assert all(row.messages[-1]["role"] == "user" and row.question for row in rows)
        assert environment.row(rows[3].uid) == rows[3]
        results = await environment.rewards(rows[0].uid, [GOOD, OTHER])
    for result in results:
        assert result.reward is not None and math.isfinite(result.reward) and not result.is_failed
        assert result.metrics and all(math.isfinite(value) for value in result.metrics.values())
        assert not any(name.startswith("train/") for name in result.metrics)


@pytest.mark.slow
async def test_messages_are_refused_and_not_judged_as_their_representation() -> None:
    async with offline_judge() as (url, judge):
        uid = (await open_at(url, "rubric_absolute")).uids[0]
        source = EnvironmentSource.from_settings("rubric_absolute", offline=True)
        with pytest.raises(RefusedError, match=r"policy's text, .*messages: rubric_absolute"):
            await EnvironmentScores(source).score(
                [Sample({"uid": uid}, [{"role": "assistant", "content": GOOD}])]
            )
        assert judge.asked == 0


@pytest.mark.parametrize("name", TWO)
async def test_equal_completions_are_judged_once(name: str) -> None:
    async with offline_judge() as (url, judge):
        environment = await open_at(url, name)
        uid = environment.uids[0]
        alone = await environment.rewards(uid, [GOOD])
        asked = judge.asked
        await environment.rewards(uid, [OTHER] * 4)
        assert judge.asked == 2 * asked
        one, _, again = await environment.rewards(uid, [GOOD, OTHER, GOOD])
        assert one == again == alone[0] and judge.asked == 4 * asked


@pytest.mark.parametrize("name", TWO)
async def test_a_failed_judge_gives_no_reward_and_the_others_keep_theirs(name: str) -> None:
    texts = [f"{GOOD} {number}" for number in range(6)]
    async with offline_judge() as (url, _):
        environment = await open_at(url, name)
        expected = [await environment.rewards(environment.uids[0], [text]) for text in texts]
    async with offline_judge(every_third_fails=True) as (url, judge):
        environment = await open_at(url, name)
        results = [await environment.rewards(environment.uids[0], [text]) for text in texts]
        failed = [judge.has_failed(text) for text in texts]
    assert any(failed)
    for (result,), (before,), is_failed in zip(results, expected, failed, strict=True):
        assert result.is_failed is is_failed
        if is_failed:
            assert result.reward is None and result.status == JUDGE_FAILED and result.metrics == {}
            assert "planted" in result.explanation
            assert "no reward (judge_failed): " in str(result.error())
        else:
            assert result == before


@pytest.mark.parametrize("name", (*TWO, "pairwise_judgement"))
async def test_an_empty_completion_is_wrong_and_asks_no_judge(name: str) -> None:
    async with offline_judge() as (url, judge):
        environment = await open_at(url, name, invalid_thinking_reward=-0.5)
        empty, cut = await environment.rewards(
            environment.uids[0], ["", Choice("", finish_reason="length")]
        )
        assert judge.asked == 0
        assert await environment.rewards(environment.uids[0], []) == []
    for result in (empty, cut):
        assert (result.reward, result.status, result.is_invalid) == (-0.5, INVALID_COMPLETION, True)
        assert not result.is_failed and result.explanation


@pytest.mark.parametrize("name", TWO)
async def test_thinking_is_asked_for_and_not_judged(name: str) -> None:
    async with ScriptedEndpoint(OfflineJudge()) as endpoint:
        url = endpoint.base_url
        plain = await open_at(url, name)
        environment = await open_at(url, name, thinking_mode=True)
        uid = environment.uids[0]
        assert "<think>" in environment.row(uid).messages[0]["content"]
        (expected,) = await plain.rewards(uid, [GOOD])
        thought, without = await environment.rewards(
            uid, [f"<think>SECRET {OTHER}</think>{GOOD}", GOOD]
        )
        assert (thought.reward, thought.label) == (expected.reward, expected.label)
        assert without.is_invalid
        assert endpoint.bodies and "SECRET" not in str(endpoint.bodies)


@pytest.mark.slow
async def test_a_judge_of_groups_compares_the_completions_of_a_call() -> None:
    name = "arena_hard"
    async with offline_judge() as (url, judge):
        environment = await open_at(url, name, group_judge="listwise")
        assert environment.compares and not (await open_at(url, name)).compares
        uid = environment.uids[0]
        one, other, again, empty = await environment.rewards(uid, [GOOD, OTHER, GOOD, ""])
        asked = judge.asked
        assert one.reward is not None and other.reward is not None and one == again
        assert empty.is_invalid
        await environment.rewards(uid, [GOOD, OTHER, GOOD, ""])
        assert judge.asked == 2 * asked


@pytest.mark.parametrize("name", TWO)
async def test_a_judge_without_the_key_or_the_model_is_an_error_until_it_has_judged(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten rejected requests open the breaker, which then sends one after each pause: here at once."""
    monkeypatch.setattr(reachability, "_FIRST_PROBE_PAUSE_S", 0.0)
    stand_in, knows = OfflineJudge(), False

    def judge(request: Json, number: int) -> Reply | str:
        return (
            stand_in(request, number)
            if knows
            else Reply(status=401, body={"error": {"message": "wrong key"}})
        )

    async with ScriptedEndpoint(judge) as endpoint:
        environment = await open_at(endpoint.base_url, name, endpoint_rejected_deadline=0.0)
        uid = environment.uids[0]
        assert (await environment.rewards(uid, [""]))[0].is_invalid
        for _ in range(2):
            with pytest.raises(SettingsError, match=r"endpoint refuses .*HTTP 401"):
                await environment.rewards(uid, [GOOD])
        knows = True
        assert (await environment.rewards(uid, [GOOD]))[0].reward is not None
        knows = False
        assert (await environment.rewards(uid, [OTHER]))[0].is_failed


async def test_a_judge_that_refuses_all_is_an_error_after_the_first_completions() -> None:
    """A field that the endpoint does not know, say: a trainer would otherwise go on without any reward."""

    def judge(request: Json, number: int) -> Reply:
        return Reply(status=400, body={"error": {"message": "unknown parameter"}})

    async with ScriptedEndpoint(judge) as endpoint:
        environment = await open_at(endpoint.base_url, "rubric_absolute")
        uid = environment.uids[0]
        for number in range(
            REFUSED_AT_START - 1
        ):  # may be the row's fault, however many completions it has
            results = await environment.rewards(
                uid, [f"{GOOD} {number} {each}" for each in range(3)]
            )
            assert all(result.is_failed for result in results)
        with pytest.raises(SettingsError, match=r"first 8 requests .*refused: .*HTTP 400"):
            await environment.rewards(uid, [OTHER])


@pytest.mark.parametrize("wrong", [None, math.nan, math.inf])
async def test_a_reward_that_is_no_number_is_none(
    wrong: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`None` has peer evaluation where the judges have no completion in common."""
    async with offline_judge() as (url, _):
        environment = await open_at(url, "self_critique")
        rewards = lambda judgments: [wrong] * len(judgments)  # noqa: E731
        monkeypatch.setattr(environment._env, "group_rewards", rewards, raising=False)
        [result, invalid] = await environment.rewards(environment.uids[0], [GOOD, ""])
    assert (result.reward, result.status, result.metrics) == (None, JUDGE_FAILED, {})
    assert wrong is not None or "in common" in str(result.error())
    assert invalid.reward is not None


async def test_samples_of_an_environment_have_a_deadline_and_the_id_of_a_row() -> None:
    def judge(request: Json, number: int) -> Reply:
        return Reply(delay_s=30.0)

    async with ScriptedEndpoint(judge) as endpoint:
        environment = await open_at(endpoint.base_url, "rubric_absolute")
        source, uid = EnvironmentScores(environment.source), environment.uids[0]
        [late] = await RewardScorer(source, deadline_s=0.1).score_each([Sample({"uid": uid}, GOOD)])
        assert (late.is_failed, late.explanation) == (True, "no score within 0.1 s")
        other, foreign = RewardScorer(source, deadline_s=60.0), Sample({"uid": None}, GOOD)
        for _ in range(REFUSED_AT_START - 1):
            [refused] = await other.score_each([foreign])
            assert refused.is_failed and refused.status == "refused"
        with pytest.raises(SettingsError, match="row of rubric_absolute, found None"):
            await other.score_each([foreign])


async def test_an_environment_that_is_closed_while_it_judges_gives_no_reward_and_no_error() -> None:
    """Another training in the process, with the same settings, has ended."""
    asked = asyncio.Event()

    def judge(request: Json, number: int) -> Reply:
        asked.set()
        return Reply(hang=True)

    async with ScriptedEndpoint(judge) as endpoint:
        environment = await open_at(endpoint.base_url, "rubric_absolute")
        judging = asyncio.create_task(environment.rewards(environment.uids[0], [GOOD, OTHER]))
        await asked.wait()
        await asyncio.to_thread(close_all)
        results = await judging
    assert [(result.is_failed, "was closed" in result.explanation) for result in results] == [
        (True, True)
    ] * 2
