"""A response judged by a rubric: once, several times, and by the tokens' probabilities."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from judgegym.judges.core.judgment import Judgment, Scale, Status
from judgegym.judges.rubrics.judge import RubricDetail, RubricTaskJudge, RubricVerdict
from judgegym.judges.rubrics.prompt import Rubric, RubricJudgeSettings
from judgegym.llm.cache import JudgmentCache
from judgegym.llm.errors import SettingsError
from tests.rubrics import rubric_prompt, rubric_task
from tests.scripted import Json, Reply, Script, ScriptedEndpoint, completion

RUBRIC = Rubric("Is it short?")
ROW: dict[str, Any] = {
    "instruction": "How?",
    "response": "Mix both.",
    "rubric": RUBRIC,
    "reference": "Stir.",
}
TASK = rubric_task(**ROW)

Connect = Callable[..., Any]


def said(score: int | str, words: str = "It is good.") -> str:
    return f"[FEEDBACK] {words}\n\n[SCORE] {score}"


def by_number(texts: Sequence[str | Reply], *, first_seed: int = 0) -> Script:
    """Answers each judgment by its number, which its seed tells."""
    return lambda request, number: texts[request.get("seed", first_seed + number - 1) - first_seed]


async def judged(client: Any, samples: int = 1, **settings: Any) -> Judgment[RubricDetail]:
    rubric: Rubric = settings.pop("rubric", RUBRIC)
    low, high = rubric.scale
    own = RubricJudgeSettings(samples_per_item=samples, scale_min=low, scale_max=high, **settings)
    return await RubricTaskJudge(own, client).judge(rubric_task(**{**ROW, "rubric": rubric}))


def detail_of(judgment: Judgment[RubricDetail]) -> RubricDetail:
    assert judgment.detail is not None
    return judgment.detail


async def test_one_judgment(connect: Connect) -> None:
    async with ScriptedEndpoint(said(4)) as endpoint:
        judgment = await judged(connect(endpoint, temperature=0.0))
    assert (judgment.status, judgment.score, judgment.label, judgment.explanation) == (
        Status.OK,
        4.0,
        "4",
        "It is good.",
    )
    ((each,), spread) = detail_of(judgment).judgments, detail_of(judgment).spread
    assert (each.score, each.expected, each.value, each.text) == (4, None, 4, said(4))
    assert (each.strict, each.error, spread) == (True, None, None)
    assert [(call.name, call.value) for call in judgment.calls] == [
        ("judgment_1", RubricVerdict(4))
    ]
    assert endpoint.bodies == [
        {"model": "judge-model", "messages": rubric_prompt(**ROW).messages, "temperature": 0.0}
    ]


async def test_what_the_judge_is_shown_follows_the_settings(connect: Connect) -> None:
    wide = Rubric("Is it short?", {0: "No.", 10: "Yes."}, Scale(0, 10))
    async with ScriptedEndpoint("Feedback: Good. [RESULT] 10/10") as endpoint:
        judgment = await judged(
            connect(endpoint), output_format="result", rubric=wide, judge_system_prompt="Judge."
        )
    assert (
        endpoint.bodies[0]["messages"]
        == rubric_prompt(
            **{**ROW, "rubric": wide}, output_format="result", system_prompt="Judge."
        ).messages
    )
    assert (judgment.score, judgment.label, judgment.explanation) == (10.0, "10", "Good.")
    assert detail_of(judgment).judgments[0].strict is False


@pytest.mark.parametrize(
    ("scores", "mean", "median", "spread"),
    [
        ([4, 5], 4.5, 4.5, math.sqrt(0.5)),
        ([1, 2, 4, 5], 3.0, 3.0, math.sqrt(10 / 3)),
        ([2, 1, 5, 1, 1], 2.0, 1.0, math.sqrt(12 / 4)),
    ],
)
async def test_several_judgments(
    connect: Connect, scores: list[int], mean: float, median: float, spread: float
) -> None:
    texts = [said(score, f"Words {number}.") for number, score in enumerate(scores)]
    for pooling, score in (("mean", mean), ("median", median)):
        async with ScriptedEndpoint(by_number(texts)) as endpoint:
            judgment = await judged(connect(endpoint), len(scores), samples_pooling=pooling)
        assert len(endpoint.requests) == len(scores)
        assert (judgment.status, judgment.score) == (Status.OK, pytest.approx(score))
        assert detail_of(judgment).spread == pytest.approx(spread)
        assert [each.score for each in detail_of(judgment).judgments] == scores
        assert judgment.explanation == "\n\n".join(
            f"Words {number}." for number in range(len(scores))
        )


@pytest.mark.parametrize(
    ("samples", "texts", "usable"),
    [
        (1, ["Hm."] * 3, 0),
        (1, [said("4.5"), said(6), said("3-4")], 0),
        (3, [said(4), "Hm.", said(4), "Hm.", "Hm."], 2),
        (2, ["Hm.", said(4), "Hm.", "Hm."], 1),
    ],
)
async def test_too_few_scores_are_none(
    connect: Connect, samples: int, texts: list[str], usable: int
) -> None:
    async with ScriptedEndpoint(by_number(texts)) as endpoint:
        judgment = await judged(connect(endpoint), samples)
    assert len(endpoint.requests) == len(texts) == samples + 2
    assert (judgment.status, judgment.score, judgment.label) == (Status.UNPARSABLE, None, None)
    assert f"{usable} of {samples}" in judgment.explanation
    assert sum(each.score is not None for each in detail_of(judgment).judgments) == usable


async def test_a_judgment_without_the_words_of_its_format_is_explained_by_its_text(
    connect: Connect,
) -> None:
    async with ScriptedEndpoint("[SCORE] 4") as endpoint:
        judgment = await judged(connect(endpoint))
    assert (judgment.score, judgment.explanation) == (4.0, "[SCORE] 4")
    assert detail_of(judgment).judgments[0].strict is False


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"samples_per_item": 0}, "samples_per_item"),
        ({"scale_min": 5}, r"scale_max \(5\) .*above scale_min \(5\)"),
        ({"scale_max": 0}, r"scale_max \(0\) .*above scale_min \(1\)"),
        ({"weighting": "logprobs", "scale_max": 10}, "one digit, .*from 1 to 10"),
        (
            {"weighting": "logprobs", "scale_min": -1, "scale_max": 1},
            "one digit, .*from -1 to 1",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        RubricJudgeSettings(**given)


# Probabilities.


def weighed(
    alternatives: Sequence[tuple[str, float]],
    sampled: str = "4",
    tag: Sequence[str] = ("[", "SCORE", "]"),
) -> Reply:
    """A judge's answer with the alternatives to its score, as probabilities."""
    texts = ["[", "FEED", "BACK", "]", " Of ", "2", " parts", ".\n", *tag, " ", sampled]
    content: list[Json] = [
        {"token": text, "logprob": -0.1, "top_logprobs": [{"token": "1", "logprob": -0.1}]}
        for text in texts
    ]
    content[-1]["top_logprobs"] = [
        {"token": text, "logprob": math.log(share)} for text, share in alternatives
    ]
    body = completion("".join(texts))
    body["choices"][0]["logprobs"] = {"content": content}
    return Reply(body=body)


@pytest.mark.parametrize(
    ("alternatives", "score"),
    [
        ([("4", 0.5), ("5", 0.5)], 4.5),
        ([(" 4", 0.2), ("4", 0.2), ("5", 0.4), ("Four", 0.2)], 4.5),
    ],
)
async def test_probabilities_in_place_of_the_number(
    connect: Connect, alternatives: list[tuple[str, float]], score: float
) -> None:
    async with ScriptedEndpoint(weighed(alternatives)) as endpoint:
        judgment = await judged(connect(endpoint), weighting="logprobs")
    assert (endpoint.bodies[0]["logprobs"], endpoint.bodies[0]["top_logprobs"]) == (True, 20)
    assert (judgment.status, judgment.score) == (Status.OK, pytest.approx(score))
    (each,) = detail_of(judgment).judgments
    assert (each.score, each.expected, each.value) == (
        4,
        pytest.approx(score),
        pytest.approx(score),
    )
    assert len(endpoint.requests) == 1


async def test_probabilities_are_asked_for_only_where_they_count(connect: Connect) -> None:
    async with ScriptedEndpoint(weighed([("5", 1.0)])) as endpoint:
        judgment = await judged(connect(endpoint))
    assert judgment.score == 4.0
    assert not {"logprobs", "top_logprobs"} & set(endpoint.bodies[0])


async def test_probabilities_of_the_other_format(connect: Connect) -> None:
    reply = weighed([("2", 0.75), ("4", 0.25)], tag=("[RES", "ULT]"))
    async with ScriptedEndpoint(reply) as endpoint:
        judgment = await judged(connect(endpoint), weighting="logprobs", output_format="result")
    assert judgment.score == pytest.approx(2.5)


async def test_several_expectations_are_pooled(connect: Connect) -> None:
    replies = [
        weighed([("4", 0.5), ("5", 0.5)]),
        weighed([("1", 1.0)], "1"),
        weighed([("2", 0.5), ("3", 0.5)], "2"),
    ]
    async with ScriptedEndpoint(by_number(replies)) as endpoint:
        judgment = await judged(connect(endpoint), 3, weighting="logprobs")
    assert judgment.score == pytest.approx(8 / 3)
    assert detail_of(judgment).spread == pytest.approx(
        math.sqrt(((4.5 - 8 / 3) ** 2 + (5 / 3) ** 2 + (1 / 6) ** 2) / 2)
    )


async def test_too_little_mass_on_the_scale_is_no_score(connect: Connect) -> None:
    async with ScriptedEndpoint(weighed([("4", 0.3), ("Four", 0.7)])) as endpoint:
        judgment = await judged(connect(endpoint), weighting="logprobs")
    assert (judgment.status, judgment.score, len(endpoint.requests)) == (Status.UNPARSABLE, None, 3)
    assert "0.30 of the probability" in judgment.explanation
    assert [(each.score, each.expected, each.value) for each in detail_of(judgment).judgments] == [
        (None, None, None)
    ] * 3


async def test_an_endpoint_without_probabilities_is_a_wrong_setting(
    connect: Connect, tmp_path: Path
) -> None:
    for samples in (1, 3):
        async with ScriptedEndpoint(said(4)) as endpoint:
            cache = JudgmentCache(tmp_path / f"cache-{samples}.sqlite")
            for client in (connect(endpoint), connect(endpoint, cache=cache)):
                with pytest.raises(SettingsError, match="logprobs"):
                    await judged(client, samples, weighting="logprobs")
            cache.close()


async def test_probabilities_are_kept(connect: Connect, tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path / "cache.sqlite")
    async with ScriptedEndpoint(weighed([(" 4", 0.5), ("5", 0.3), ("x", 0.2)])) as endpoint:
        client = connect(endpoint, cache=cache)
        first = await judged(client, weighting="logprobs")
        again = await judged(client, weighting="logprobs")
        plain = await judged(client)
    cache.close()
    assert [first.score, again.score] == [pytest.approx((2 + 1.5) / 0.8)] * 2
    assert (again.calls[0].run.cached, plain.calls[0].run.cached) == (True, False)
    assert (plain.score, len(endpoint.requests)) == (4.0, 2)
