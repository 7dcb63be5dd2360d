"""The judge of an agent's steps: what each is shown, how scores are combined, steps that fail or are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from judgegym.engine.plan.client import DryRun
from judgegym.engine.plan.planning import open_dry_judge
from judgegym.judges.conversations.turns import ToolCall, Turn, render_transcript, text_turn
from judgegym.judges.core.judgment import Status
from judgegym.judges.core.tasks import JudgeTask, judge_responses
from judgegym.judges.parts.steps import LEFT_OUT, StepsJudge
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.ledger import record_calls
from tests.core.judges.ledgers import Ledger
from tests.core.judges.parts.juries import NO_VERDICT, REFUSED, Connect, opened
from tests.scripted import Json, Meeting, Reply, ScriptedEndpoint


def calling(name: str, arguments: str, number: str) -> Turn:
    call = ToolCall(name, arguments, number)
    return Turn("assistant", "", call.shown, calls=(call,))


TRACE = (
    calling("search", '{"city":"Rome"}', "1"),
    Turn("tool", "Hotels A and B", "Hotels A and B", "search", answers="1"),
    text_turn("assistant", "I take B."),
    calling("book", '{"hotel":"B"}', "2"),
    Turn("tool", "booked", "booked", "book", answers="2"),
    text_turn("assistant", "B is booked."),
)
TASK = JudgeTask("Book a hotel.", (render_transcript(TRACE),), traces=(TRACE,))
STEPS = (
    ("step_0", "search("),
    ("step_2", "I take B."),
    ("step_3", "book("),
    ("step_5", "B is booked."),
)
RATINGS: Mapping[str, int | Reply] = {"step_0": 10, "step_2": 8, "step_3": 5, "step_5": 2}


def step_of(request: Json) -> str:
    """The step that a request asks about: the response is what its prompt ends with."""
    prompt = request["messages"][-1]["content"]
    _, _, response = prompt.rpartition("Response To Evaluate")
    return next(name for name, words in STEPS if words in response)


def rated(ratings: Mapping[str, int | Reply]) -> Any:
    def answer(request: Json, number: int) -> Reply | str:
        rating = ratings[step_of(request)]
        return (
            rating
            if isinstance(rating, Reply)
            else f"[FEEDBACK] Of {step_of(request)}. [SCORE] {rating}"
        )

    return answer


def steps(
    connect: Connect, endpoint: ScriptedEndpoint, judge: object = (), **given: Any
) -> StepsJudge:
    found = opened(connect, endpoint, "steps", dict(judge) if judge == () else judge, **given)
    assert isinstance(found, StepsJudge)
    return found


@pytest.mark.parametrize(
    ("combine", "score"),
    [("mean", 0.625), ("min", 0.2), ("last", 0.2), ("product", 1.0 * 0.8 * 0.5 * 0.2)],
)
async def test_each_step_has_a_score_by_its_index_and_they_make_one(
    connect: Connect, combine: str, score: float
) -> None:
    async with ScriptedEndpoint(rated(RATINGS)) as endpoint:
        judge = steps(connect, endpoint, steps_combine=combine)
        (result,) = await judge_responses(judge, TASK)
    assert (result.score, result.status, result.judge_calls) == (pytest.approx(score), "ok", 4)
    found = {name: value for name, value in result.components.items() if "." not in name}
    assert found == {"step_0": 1.0, "step_2": 0.8, "step_3": 0.5, "step_5": 0.2}
    assert result.label == "step_0=1 step_2=0.8 step_3=0.5 step_5=0.2"
    assert "step_3: Of step_3." in result.explanation
    assert [*result.runs] == [f"step_{index}/judgment_1" for index in (0, 2, 3, 5)]


async def test_a_step_is_shown_with_what_was_before_it_and_nothing_of_what_follows(
    connect: Connect,
) -> None:
    async with ScriptedEndpoint(rated(RATINGS)) as endpoint:
        await steps(connect, endpoint).judge_task(TASK)
    shown = {step_of(body): body["messages"][-1]["content"] for body in endpoint.bodies}
    whole = [
        "user: Book a hotel.",
        'assistant: [tool call: search({"city":"Rome"})]',
        "tool (search): Hotels A and B",
        "assistant: I take B.",
        'assistant: [tool call: book({"hotel":"B"})]',
        "tool (book): booked",
    ]
    assert "\n\nBook a hotel.\n\n" in shown["step_0"]
    for name, before in (("step_2", 3), ("step_3", 4), ("step_5", 6)):
        assert "\n\n".join(whole[:before]) in shown[name]
        assert not any(turn in shown[name] for turn in whole[before:])
    assert '\n\n[tool call: book({"hotel":"B"})]\n\n' in shown["step_3"]


async def test_all_steps_are_judged_at_once(connect: Connect) -> None:
    meeting = Meeting(len(STEPS))

    async def answer(request: Json, number: int) -> str:
        await meeting.wait()
        return "[FEEDBACK] So. [SCORE] 5"

    async with ScriptedEndpoint(answer) as endpoint:
        assert (await steps(connect, endpoint).judge_task(TASK)).score == 0.5
        assert endpoint.peak == len(STEPS)


@pytest.mark.parametrize(
    ("fault", "status"), [(NO_VERDICT, Status.UNPARSABLE), (REFUSED, Status.JUDGE_FAILED)]
)
@pytest.mark.parametrize("combine", ["mean", "min", "last", "product"])
async def test_a_step_that_fails_leaves_no_score(
    connect: Connect, fault: Reply, status: Status, combine: str
) -> None:
    async with ScriptedEndpoint(rated({**RATINGS, "step_2": fault})) as endpoint:
        judgment = await steps(connect, endpoint, steps_combine=combine).judge_task(TASK)
    assert (judgment.score, judgment.status) == (None, status)
    assert judgment.explanation.startswith("step_2: ") and "step_0" not in judgment.explanation


@pytest.mark.parametrize(
    ("most", "kept", "left_out"),
    [
        (2, {"step_0", "step_5"}, ["step_2", "step_3"]),
        (3, {"step_0", "step_2", "step_5"}, ["step_3"]),
        (9, {name for name, _ in STEPS}, []),
    ],
)
async def test_of_more_steps_than_the_bound_the_first_and_the_last_are_kept_and_the_rest_is_named(
    connect: Connect, most: int, kept: set[str], left_out: list[str]
) -> None:
    async with ScriptedEndpoint(rated(RATINGS)) as endpoint:
        judge = steps(connect, endpoint, steps_most=most)
        judgment = await judge.judge_task(TASK)
    assert {step_of(body) for body in endpoint.bodies} == kept
    components = judgment.components
    assert {name for name in components if name.startswith("step_") and "." not in name} == kept
    assert components.get(LEFT_OUT, 0) == len(left_out)
    said = f"\n\nnot judged (steps_most): {', '.join(left_out)}"
    assert (
        judgment.explanation.endswith(said)
        if left_out
        else "not judged" not in judgment.explanation
    )


async def test_reasoning_and_results_are_no_steps_and_a_text_is_one(connect: Connect) -> None:
    silent = Turn("assistant", "", "[reasoning, left out]", reasoning="Hm.")
    async with ScriptedEndpoint("[FEEDBACK] So. [SCORE] 5") as endpoint:
        judge = steps(connect, endpoint)
        judgment = await judge.judge_task(JudgeTask("Q", ("…",), traces=((silent, *TRACE[1:3]),)))
        assert {*judgment.components} == {"step_2", "step_2.raw"}
        text = await judge.judge_task(JudgeTask("Q", ("B is booked.",)))
        assert {*text.components} == {"step_0", "step_0.raw"}
        nothing = await judge.judge_task(JudgeTask("Q", ("…",), traces=((silent, TRACE[1]),)))
    assert (nothing.score, nothing.status) == (None, Status.UNPARSABLE)
    assert "no turn" in nothing.explanation and "a tool call" in nothing.explanation
    assert len(endpoint.requests) == 2


async def test_equal_steps_have_calls_of_their_own_in_the_ledger(connect: Connect) -> None:
    again = (text_turn("assistant", "Wait."), text_turn("assistant", "Wait."))
    ledger = Ledger(9)
    async with ScriptedEndpoint("[FEEDBACK] So. [SCORE] 5") as endpoint:
        judge = steps(connect, endpoint)
        with record_calls(ledger):
            await judge.judge_task(JudgeTask("", ("…",), traces=(again,)))
    assert ledger.answers == 2


async def test_responses_with_equal_texts_and_other_traces_are_judged_apart(
    connect: Connect,
) -> None:
    other = (text_turn("assistant", "B is booked."),)
    task = JudgeTask("Book a hotel.", ("same", "same", "same"), traces=(TRACE, other, TRACE))
    async with ScriptedEndpoint(rated(RATINGS)) as endpoint:
        results = await judge_responses(steps(connect, endpoint, steps_combine="min"), task)
        assert [result.judge_calls for result in results] == [4, 1, 0]
        cascade = opened(
            connect, endpoint, "cascade", ["a", "b"], cascade_threshold=0, cascade_recheck=0
        )
        assert [
            result.judge_calls for result in await judge_responses(cascade, _without_text(task))
        ] == [1, 1, 0]


def _without_text(task: JudgeTask) -> JudgeTask:
    return JudgeTask(task.prompt, ("B is booked.",) * 3, traces=task.traces)


async def test_a_rule_reads_the_calls_of_each_step_by_itself(connect: Connect) -> None:
    async with ScriptedEndpoint() as endpoint:
        rule = {"judge": "rule", "rule": "tool_called", "rule_expected": "book"}
        judgment = await steps(connect, endpoint, rule, steps_combine="min").judge_task(TASK)
    assert judgment.label == "step_0=0 step_2=0 step_3=1 step_5=0"
    assert (judgment.score, endpoint.requests) == (0.0, [])


REWARD = {
    "quality": {"judge": "rubric"},
    "safe": {"judge": "rule", "rule": "tool_not_called", "rule_expected": ["delete_*"], "gate": 1},
    "each": {"judge": "steps", "steps_judge": {"judge": "aspect", "aspects": "correctness"}},
}


async def test_steps_a_rubric_and_rules_are_parts_of_a_reward(connect: Connect) -> None:
    def answer(request: Json, number: int) -> str:
        is_rubric = "[SCORE]" in "".join(message["content"] for message in request["messages"])
        return "[FEEDBACK] So. [SCORE] 5" if is_rubric else '{"reason": "So.", "verdict": 1}'

    async with ScriptedEndpoint(answer) as endpoint:
        judge = opened(connect, endpoint, "composite", REWARD)
        (result,) = await judge_responses(judge, TASK)
        assert result.score is not None, result.explanation
        assert (result.components["safe"], result.components["quality"]) == (1.0, 0.5)
        assert {
            name
            for name in result.components
            if name.startswith("each.step_") and name.count(".") == 1
        } == {f"each.{name}" for name, _ in STEPS}
        assert sum(name.startswith("each/step_") for name in result.runs) == 4
        calls = len(endpoint.requests)
        bad = (*TRACE, calling("delete_account", "{}", "3"))
        (gated,) = await judge_responses(judge, JudgeTask("Book a hotel.", ("…",), traces=(bad,)))
    assert (gated.score, len(endpoint.requests)) == (0.0, calls)


EXPECTED_CALLS: dict[str, dict[str, int]] = {
    "steps": {"": 4},
    "composite": {"each": 4, "quality": 1},
}


@pytest.mark.parametrize(
    "given",
    [
        {"judge": "steps", "steps_judge": {"judge": "aspect", "aspects": "correctness"}},
        {"judge": "composite", "reward": REWARD},
        {"judge": "steps", "steps_most": 2, "steps_judge": {"judge": "jury", "judges": "a,b"}},
    ],
)
async def test_a_plan_counts_the_calls_of_each_step(given: dict[str, Any]) -> None:
    settings, dry = AnyJudgeSettings.model_validate(given), DryRun()
    dry.parts = frozenset(settings.part_names)
    await judge_responses(open_dry_judge(settings, dry), TASK)
    calls = Counter[str]()
    for role, load in dry.tally.items():
        calls[role.part] += round(load.calls)
    assert calls == EXPECTED_CALLS[settings.judge]


def test_the_judge_is_given_as_settings_a_model_or_nothing_and_written_again_as_read() -> None:
    given: list[tuple[object, str]] = [
        ({"judge": "peer"}, "peer"),
        ("gpt-4o", "rubric"),
        ([{"judge": "peer"}], "peer"),
    ]
    for value, kind in given:
        settings = AnyJudgeSettings.model_validate({"steps_judge": value})
        assert (settings.judge, settings.kinds) == ("steps", [kind])
        assert AnyJudgeSettings.model_validate(
            {"judge": "steps", **settings.model_dump(include={"steps_judge"})}
        ) == (settings)
    assert AnyJudgeSettings(judge="steps", rubric="Is it safe?").kinds == ["rubric"]
    assert AnyJudgeSettings().judge == "rubric"


async def test_without_a_judge_of_its_own_a_step_has_the_rubric_of_the_command(
    connect: Connect,
) -> None:
    async with ScriptedEndpoint(rated(RATINGS)) as endpoint:
        settings = AnyJudgeSettings(
            judge="steps", rubric="Is it SAFE?", judge_base_url=endpoint.base_url
        )
        await open_judge(settings, connect(endpoint, max_retries=0)).score(TASK)
    assert all("SAFE?" in body["messages"][-1]["content"] for body in endpoint.bodies)
