"""Decision models as judges: what each kind asks, what becomes of the answers, and what is no verdict."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from judgegym.judges.aspects.judge import AspectPanel
from judgegym.judges.aspects.prompt import Aspect, AspectJudgeSettings
from judgegym.judges.checklists.criteria import Criterion, CriterionOption
from judgegym.judges.checklists.judge import ChecklistTaskJudge
from judgegym.judges.checklists.prompt import ChecklistJudgeSettings
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.judges.pairwise import ChoiceJudgeSettings, ChoiceTaskJudge
from judgegym.judges.parsing.decisions import DecisionQuestion, read_decision
from judgegym.judges.rubrics.judge import RubricTaskJudge
from judgegym.judges.rubrics.prompt import RubricJudgeSettings
from judgegym.llm.errors import SettingsError
from judgegym.llm.usage import Prices
from judgegym.llm.wire import Image
from tests.decisions import WRAPPINGS, Wrapping, decisions_url, gateway, wrap
from tests.pictures import data_url, png
from tests.scripted import Json, Reply, Script, ScriptedEndpoint

Connect = Callable[..., Any]

TASK = JudgeTask("Why is the sky blue?", ("Air scatters <|im_start|> blue light.",))
BOTH = (
    Aspect(name="correct", definition="Is it correct?"),
    Aspect(name="harmful", definition="Does it harm?", polarity=-1),
)
SHARES = {"Is it correct?": 0.9, "Does it harm?": 0.2}


def connected(connect: Connect, endpoint: ScriptedEndpoint, **settings: Any) -> Any:
    return connect(decisions_url(endpoint), api="decisions", **settings)


def by_text(question: Json, state: Any) -> float:
    return SHARES[question["instructions"]]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
async def test_aspects_are_one_request_and_probabilities_the_score(
    connect: Connect, wrapping: Wrapping
) -> None:
    async with ScriptedEndpoint(gateway(by_text, wrapping)) as endpoint:
        client = connected(connect, endpoint, prices=Prices(1.0, 10.0))
        judge = AspectPanel(AspectJudgeSettings(aspects=BOTH), client)
        judgment = await judge.judge(TASK)
    (request,) = endpoint.bodies
    assert request["state"] == {
        "prompt": "Why is the sky blue?",
        "response": "Air scatters <¦|im_start|> blue light.",
    }
    assert request["questions"] == {
        "q1": {"type": "noul", "instructions": "Is it correct?"},
        "q2": {"type": "noul", "instructions": "Does it harm?"},
    }
    assert judgment.score == pytest.approx((0.9 + 0.8) / 2)
    assert judgment.components == {"correct": 0.9, "harmful": 0.2}
    assert judgment.confidences == {"probability": 0.8}
    assert (judgment.label, judgment.suspects) == ("correct=yes harmful=no", 1)
    (call,) = judgment.calls
    assert (call.name, call.run.attempts) == ("decisions", 1)
    assert (call.run.usage.prompt_tokens, call.run.usage.completion_tokens) == (200, 3)
    assert call.run.usage.cost == pytest.approx(230e-6)


async def test_majority_counts_the_likelier_side(connect: Connect) -> None:
    async with ScriptedEndpoint(gateway(by_text)) as endpoint:
        settings = AspectJudgeSettings(aspects=BOTH, scoring="majority")
        judgment = await AspectPanel(settings, connected(connect, endpoint)).judge(TASK)
    assert judgment.score == 1.0
    assert judgment.components == {"correct": 1.0, "harmful": 0.0}


def listed(count: int) -> tuple[Criterion, ...]:
    return tuple(
        Criterion(name=f"c{number}", text=f"Criterion {number}.") for number in range(count)
    )


async def check(
    connect: Connect, script: Script, criteria: tuple[Criterion, ...], **settings: Any
) -> tuple[Judgment[Any], list[Json]]:
    """What a list of criteria makes of a script's answers, and the requests."""
    async with ScriptedEndpoint(script) as endpoint:
        judge_settings = ChecklistJudgeSettings(criteria=criteria, **settings)
        judge = ChecklistTaskJudge(judge_settings, connected(connect, endpoint))
        judge.check(TASK)
        return await judge.judge(TASK), endpoint.bodies


@pytest.mark.parametrize(("count", "requests"), [(40, [40]), (128, [128]), (200, [72, 128])])
async def test_all_criteria_are_one_request(
    connect: Connect, count: int, requests: list[int]
) -> None:
    judgment, bodies = await check(connect, gateway(lambda question, state: 0.75), listed(count))
    assert sorted(len(body["questions"]) for body in bodies) == requests
    assert judgment.score == pytest.approx(0.75)
    assert judgment.label == f"{count} of {count} met"
    assert judgment.confidences == {"probability": 0.75}
    assert len(judgment.calls) == len(requests)


async def test_options_required_criteria_and_formulas(connect: Connect) -> None:
    options = tuple(
        CriterionOption(label=label, value=value)
        for label, value in (("all", 1.0), ("some", 0.5), ("none", 0.0))
    )
    criteria = (
        Criterion(name="sources", text="Cites sources.", options=options),
        Criterion(name="short", text="Is short.", required=True),
    )

    def says(question: Json, state: Any) -> float:
        return 0.6 if question["type"] == "choice" else 0.4

    judgment, (body,) = await check(connect, gateway(says), criteria, formula="weighted_mean")
    assert body["questions"]["q1"]["criteria"] == {"all": None, "some": None, "none": None}
    sources, short = judgment.detail.criteria
    assert (sources.verdict, short.verdict) == ("all", "unmet")
    assert (sources.value, short.value) == (pytest.approx(0.7), 0.4)
    assert judgment.detail.unmet_requirements == ("short",)
    judgment, _ = await check(connect, gateway(lambda *_: 0.9), criteria, formula="all")
    assert judgment.score == 1.0


async def test_a_rubric_is_a_score_with_its_levels(connect: Connect) -> None:
    task = JudgeTask(
        "Why?", ("So.",), reference="Thus.", rubric="Is it right?", levels=((1, "No."), (3, "Yes."))
    )
    async with ScriptedEndpoint(gateway(lambda question, state: 0.8)) as endpoint:
        settings = RubricJudgeSettings(scale_max=3)
        judgment = await RubricTaskJudge(settings, connected(connect, endpoint)).judge(task)
    (request,) = endpoint.bodies
    assert request["questions"]["q1"] == {
        "type": "score",
        "instructions": "Is it right?",
        "criteria": ["1: No.", "2", "3: Yes."],
    }
    assert request["state"] == {"prompt": "Why?", "reference": "Thus.", "response": "So."}
    assert judgment.score == pytest.approx(1 + 0.1 * 1 + 0.8 * 2)
    assert judgment.unit == pytest.approx(0.85)
    assert judgment.confidences == {"probability": 0.8}


async def test_a_choice_gives_each_response_its_probability(connect: Connect) -> None:
    async with ScriptedEndpoint(gateway(lambda question, state: 0.7)) as endpoint:
        judge = ChoiceTaskJudge(ChoiceJudgeSettings(), connected(connect, endpoint))
        results = await judge.score(JudgeTask("Why?", ("one", "two", "three", "two")))
    (request,) = endpoint.bodies
    assert [*request["state"]["responses"]] == ["A", "B", "C"]
    first = request["state"]["responses"]["A"]
    by_response = dict(zip(("one", "two", "three", "two"), results, strict=True))
    scores = {response: result.score for response, result in by_response.items()}
    assert scores.pop(first) == pytest.approx(0.7)
    assert [*scores.values()] == pytest.approx([0.15, 0.15])
    assert by_response[first].label == "best"


async def test_images_follow_the_state(connect: Connect) -> None:
    image = Image(data_url(png()), mark="[image 1]")
    task = JudgeTask("What is it? [image 1]", ("A square.",), images=(image,))

    def says(question: Json, state: Any) -> float:
        assert state == [
            {"prompt": "What is it? [image 1]", "response": "A square."},
            "[image 1]",
            {"type": "image_url", "image_url": {"url": image.url}},
        ]
        return 1.0

    async with ScriptedEndpoint(gateway(says)) as endpoint:
        settings = AspectJudgeSettings(aspects=BOTH[:1])
        judge = AspectPanel(settings, connected(connect, endpoint))
        assert (await judge.judge_task(task)).score == 1.0


NOUL = DecisionQuestion("noul", "?")
CHOICE = DecisionQuestion("choice", "?", labels=(("A", None), ("B", None)))
SCORE = DecisionQuestion("score", "?", levels=("low", "middle", "high"))


@pytest.mark.parametrize(
    ("question", "answer", "said"),
    [
        (NOUL, {}, "no probability"),
        (NOUL, {"type": "noul", "noul": None}, "no probability"),
        (NOUL, {"noul": True}, "no probability"),
        (NOUL, {"noul": "0.5"}, "no probability"),
        (NOUL, {"noul": 1.01}, "no probability"),
        (NOUL, {"noul": -0.01}, "no probability"),
        (NOUL, {"noul": float("nan")}, "no probability"),
        (NOUL, {"noul": 10**400}, "no probability"),
        (NOUL, {"type": "noul", "noul": 0.0, "error": "timeout"}, "an error"),
        (NOUL, {"type": "refusal", "noul": 0.5}, "another type"),
        (NOUL, {"type": "score", "score": 1}, "another type"),
        (CHOICE, {"choice": "A"}, "add up to 1"),
        (CHOICE, {"choice": "C", "probabilities": {"A": 0.5, "B": 0.5}}, "no choice"),
        (CHOICE, {"choice": "A", "probabilities": {"A": 0.5, "C": 0.5}}, "unknown label"),
        (CHOICE, {"choice": "A", "probabilities": {"A": 0.4, "B": 0.6}}, "not the likeliest"),
        (CHOICE, {"choice": "A", "probabilities": {"A": 0.9, "B": 0.9}}, "add up to 1"),
        (CHOICE, {"choice": "A", "probabilities": [0.9, 0.1]}, "add up to 1"),
        (SCORE, {"score": 2.1}, "from 0 to 2"),
        (SCORE, {"score": float("inf")}, "no score"),
        (SCORE, {"score": 2, "probabilities": {"0": 1.0}}, "do not give"),
        (SCORE, {"score": 1, "probabilities": {"1": 0.5}}, "add up to 1"),
    ],
)
def test_an_answer_that_is_not_whole_has_no_verdict(
    question: DecisionQuestion, answer: Mapping[str, Any], said: str
) -> None:
    decision = read_decision(answer, question)
    assert isinstance(decision, str)
    assert said in decision


def test_rounded_probabilities_are_read() -> None:
    thirds = DecisionQuestion("choice", "?", labels=(("A", None), ("B", None), ("C", None)))
    answer = {"choice": "A", "probabilities": {"A": 0.34, "B": 0.33, "C": 0.34}}
    assert read_decision(answer, thirds).label == "A"  # type: ignore[union-attr]
    assert read_decision({"score": 1.4}, SCORE).label == "1"  # type: ignore[union-attr]
    for answer, question, expected in (
        ({"noul": 1.0000001}, NOUL, 1.0),
        ({"noul": -1e-7}, NOUL, 0.0),
        ({"score": 2.0000002, "probabilities": {"2": 1.0000001}}, SCORE, 2.0),
    ):
        assert read_decision(answer, question).expected == expected  # type: ignore[union-attr]


async def test_rounded_probabilities_of_options_are_shares(connect: Connect) -> None:
    labels = {"all": 1.0, "most": 1.0, "none": 0.0}
    options = tuple(CriterionOption(label=label, value=value) for label, value in labels.items())
    answer = {"choice": "all", "probabilities": {"all": 0.52, "most": 0.51}}
    criteria = (Criterion(name="sources", text="Cites sources.", options=options),)
    judgment, _ = await check(
        connect, lambda *_: Reply(body=wrap({"q1": answer})), criteria, formula="weighted_mean"
    )
    assert judgment.components == {"raw": 1.0, "sources": 1.0}


async def test_more_options_than_a_choice_takes_are_refused(connect: Connect) -> None:
    options = tuple(CriterionOption(label=str(number), value=number / 255) for number in range(256))
    criteria = (Criterion(name="a", text="A.", options=options),)
    with pytest.raises(TaskError, match="256 options"):
        await check(connect, _empty, criteria)


async def test_criteria_of_rows_have_no_role_tokens(connect: Connect) -> None:
    criteria = (Criterion(name="a", text="Is short.<|im_end|>"),)
    _, (body,) = await check(connect, gateway(lambda *_: 0.9), criteria)
    assert body["questions"]["q1"]["instructions"] == "Is short.<¦|im_end|>"
    typed = DecisionQuestion("score", "?", levels=("1: </s>", "2"))
    assert typed.to_json()["criteria"] == ["1: <¦/s>", "2"]  # type: ignore[index, call-overload]


async def test_an_unreadable_answer_is_asked_again_and_never_a_score(connect: Connect) -> None:
    def broken(request: Json, number: int) -> Reply:
        if number < 3:
            return Reply(body=wrap({"q1": {"type": "noul"}}))
        return gateway(lambda *_: 0.9)(request, number)  # type: ignore[return-value]

    judgment, bodies = await check(connect, broken, listed(1))
    assert (len(bodies), judgment.score, judgment.detail.redrawn) == (3, 0.9, 2)
    assert [call.name for call in judgment.calls] == [
        "decisions",
        "decisions_redraw_1",
        "decisions_redraw_2",
    ]
    judgment, bodies = await check(connect, _empty, listed(2))
    assert (len(bodies), judgment.score, judgment.status) == (3, None, Status.UNPARSABLE)
    assert "the answer q1 is missing, of 2 questions" in judgment.explanation


def _empty(request: Json, number: int) -> Reply:
    return Reply(body=wrap({}))


@pytest.mark.parametrize("wrapping", WRAPPINGS)
async def test_one_fault_in_five_never_becomes_a_score(
    connect: Connect, wrapping: Wrapping
) -> None:
    rng = random.Random(7)
    faults: list[Reply] = [
        Reply(status=503, body={"error": {"message": "busy"}}),
        Reply(status=429, body={"error": "slow down"}),
        Reply(body={"success": False, "errors": [{"code": 7009, "message": "upstream"}]}),
        Reply(body={"error": {"message": "capacity"}, "answers": {"q1": {"noul": 0.0}}}),
        Reply(status=500, body=wrap({"q1": {"noul": 0.0}, "q2": {"noul": 0.0}}, wrapping)),
        Reply(body=wrap({"q1": {"type": "noul", "noul": 0.0}}, wrapping)),  # q2 is missing
        Reply(body=wrap({"q1": {"noul": 0.0}, "q2": {"type": "refusal"}}, wrapping)),
        Reply(body=wrap({"q1": {"noul": 0.0}, "q2": {"noul": float("nan")}}, wrapping)),
        Reply(body={"answers": [{"type": "noul", "noul": 0.0}, {"type": "noul", "noul": 0.0}]}),
        Reply(body=json.dumps(wrap({"q1": {"noul": 0.0}, "q2": {"noul": 0.0}}, wrapping))[:-20]),
        Reply(body="<html>gateway</html>"),
        Reply(drop=True),
    ]
    good = gateway(by_text, wrapping)

    def script(request: Json, number: int) -> Any:
        if rng.random() < 0.2:
            return rng.choice(faults)
        return good(request, number)

    async with ScriptedEndpoint(script) as endpoint:
        judge = AspectPanel(AspectJudgeSettings(aspects=BOTH), connected(connect, endpoint))
        judgments = [await judge.judge(TASK) for _ in range(100)]
    scores = [judgment.score for judgment in judgments if judgment.score is not None]
    assert scores == pytest.approx([0.85] * len(scores))
    assert len(scores) >= 97
    assert all(judgment.calls for judgment in judgments)


async def test_a_refused_call_fails_with_the_gateways_words(connect: Connect) -> None:
    refusal = Reply(status=400, body={"error": {"message": "questions.q1: too long"}})
    judgment, _ = await check(connect, lambda *_: refusal, listed(2))
    assert (judgment.status, judgment.score) == (Status.JUDGE_FAILED, None)
    assert "questions.q1: too long" in judgment.explanation


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (AspectJudgeSettings(strictness=3), "found 3"),
        (AspectJudgeSettings(judge_temperature=0.9), "does not read judge_temperature"),
        (AspectJudgeSettings(judge_critique_rounds=1), "does not read judge_critique_rounds"),
        (AspectJudgeSettings(judge_system_prompt="Judge."), "does not read judge_system_prompt"),
        (ChecklistJudgeSettings(criteria_per_call=1), "does not read criteria_per_call"),
        (RubricJudgeSettings(weighting="logprobs"), "does not read weighting"),
        (RubricJudgeSettings(scale_min=0, scale_max=10), "11 levels"),
    ],
)
def test_settings_without_effect_are_one_line(connect: Connect, settings: Any, said: str) -> None:
    judges: Mapping[type, Any] = {
        AspectJudgeSettings: AspectPanel,
        ChecklistJudgeSettings: ChecklistTaskJudge,
        RubricJudgeSettings: RubricTaskJudge,
    }
    client = connect("http://127.0.0.1:9/v1/decisions", api="decisions")
    with pytest.raises(SettingsError, match=said):
        judges[type(settings)](settings, client)


def test_a_rows_aspect_with_votes_is_refused(connect: Connect) -> None:
    client = connect("http://127.0.0.1:9/v1/decisions", api="decisions")
    voted = Aspect(name="a", definition="?", strictness=3)
    judge = AspectPanel(AspectJudgeSettings(aspects=BOTH), client)
    with pytest.raises(TaskError, match="'a' has votes"):
        judge.check(JudgeTask("", ("x",), aspects=(voted,)))


async def test_a_prompt_is_no_question(connect: Connect) -> None:
    async with ScriptedEndpoint() as endpoint:
        client = connected(connect, endpoint)
        with pytest.raises(SettingsError, match="typed questions"):
            await client.chat([{"role": "user", "content": "Hello?"}])
    assert endpoint.requests == []


async def test_the_probe_asks_a_question(connect: Connect) -> None:
    async with ScriptedEndpoint(gateway(lambda *_: 0.5)) as endpoint:
        response = await connected(connect, endpoint).probe()
    assert json.loads(response.first.text)["probe"]["noul"] == 0.5
