"""Groups that are too long for one prompt: chunks that share an answer, and what a failed one costs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.judges.core.group import GroupJudgment
from judgegym.judges.core.judgment import Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.listwise.asking import divide_texts, estimate_tokens
from judgegym.judges.listwise.judge import ListwiseGroupJudge
from judgegym.judges.listwise.prompt import ListwiseJudgeSettings, listwise_prompt, shared_texts
from judgegym.llm.usage import count_tokens
from tests.listwise import judging, shown_answers
from tests.scripted import Json, ScriptedEndpoint

LIMIT = 1700
Connect = Callable[..., Any]


def answer(number: int, words: int = 250) -> str:
    return f"{number / 20:g} {'word ' * words}".strip()


def quality(text: str) -> float:
    return float(text.split()[0])


ANSWERS = tuple(answer(number) for number in range(1, 9))
TRUTH = [quality(text) for text in ANSWERS]


async def judged(
    connect: Connect,
    script: Any,
    answers: tuple[str, ...] = ANSWERS,
    *,
    anchor: str | None = None,
    **settings: Any,
) -> tuple[GroupJudgment, list[Json]]:
    async with ScriptedEndpoint(script) as endpoint:
        chosen = ListwiseJudgeSettings(**{"judge_max_input_tokens": LIMIT, **settings})
        judge = ListwiseGroupJudge(chosen, connect(endpoint))
        judgment = await judge.judge(JudgeTask("Why?", answers, baseline=anchor))
    assert all(tokens(body) <= LIMIT for body in endpoint.bodies if len(body["messages"]) == 2)
    return judgment, endpoint.bodies


def tokens(body: Json) -> int:
    return sum(count_tokens(message["content"]) for message in body["messages"])


def scores_of(judgment: GroupJudgment) -> list[float | None]:
    return [member.score for member in judgment.members]


def texts_of(body: Json) -> list[str]:
    return [shown.text for shown in shown_answers(body)]


async def test_long_group_is_divided_into_chunks_that_share_one_answer(connect: Connect) -> None:
    judgment, bodies = await judged(connect, judging(lambda text, place: quality(text)))
    chunks = [{*texts_of(body)} for body in bodies]
    assert len(chunks) > 2 and len(set.intersection(*chunks)) == 1
    assert (
        set.union(*chunks) == {*ANSWERS}
        and sum(len(chunk) - 1 for chunk in chunks) == len(ANSWERS) - 1
    )
    assert scores_of(judgment) == pytest.approx(TRUTH)
    assert [call.name for call in judgment.members[0].calls] == [
        f"chunk_{number}_order_1" for number in range(1, len(bodies) + 1)
    ]


async def test_judge_that_is_stricter_in_some_chunks_orders_the_group_all_the_same(
    connect: Connect,
) -> None:
    def reply(request: Json, number: int) -> str:
        lenience = 0.3 if ANSWERS[0] in texts_of(request) else 0.1
        return judging(lambda text, place: quality(text) + lenience)(request, number)

    judgment, _ = await judged(connect, reply)
    scores = [score or 0 for score in scores_of(judgment)]
    assert scores == sorted(scores)
    assert [score - scores[0] for score in scores] == pytest.approx(
        [truth - TRUTH[0] for truth in TRUTH]
    )


async def test_anchor_is_in_every_chunk_and_scores_compare_with_it_there(connect: Connect) -> None:
    anchor = answer(4, 200)

    def reply(request: Json, number: int) -> str:
        lenience = 0.3 if ANSWERS[0] in texts_of(request) else -0.2
        return judging(lambda text, place: max(0.0, quality(text) + lenience))(request, number)

    judgment, bodies = await judged(connect, reply, ANSWERS[4:], anchor=anchor)
    assert len(bodies) > 1 and all(anchor in texts_of(body) for body in bodies)
    assert scores_of(judgment) == pytest.approx(
        [0.5 + (truth - 0.2) / 2 for truth in TRUTH[4:]], abs=0.11
    )
    in_order = [score or 0 for score in scores_of(judgment)]
    assert in_order == sorted(in_order)


async def test_chunk_without_a_verdict_costs_its_own_answers_only(connect: Connect) -> None:
    def reply(request: Json, number: int) -> str:
        if failing in texts_of(request):
            return "I cannot say."
        return judging(lambda text, place: quality(text))(request, number)

    failing = "nobody"
    _, bodies = await judged(connect, reply)
    link = set.intersection(*({*texts_of(body)} for body in bodies))
    failing = next(text for text in ANSWERS if text not in link)
    lost = {text for body in bodies if failing in texts_of(body) for text in texts_of(body)} - link
    judgment, _ = await judged(connect, reply)
    for text, member in zip(ANSWERS, judgment.members, strict=True):
        if text in lost:
            assert (member.score, member.status) == (None, Status.UNPARSABLE)
            assert re.search("_order_1: .*no JSON object", member.explanation)
        else:
            assert member.score == pytest.approx(quality(text))
    assert 0 < len(lost) < len(ANSWERS) - 1


async def test_answer_that_fits_nowhere_costs_none_of_the_others(connect: Connect) -> None:
    endless = answer(9, 20_000)
    judgment, bodies = await judged(
        connect, judging(lambda text, place: quality(text)), (ANSWERS[0], endless, ANSWERS[1])
    )
    assert scores_of(judgment) == [TRUTH[0], None, TRUTH[1]] and len(bodies) == 1
    member = judgment.members[1]
    assert member.status is Status.JUDGE_FAILED and member.calls == ()
    assert "too long: " in member.explanation
    assert f"judge_max_input_tokens is {LIMIT}" in member.explanation


@pytest.mark.parametrize("anchor", [None, answer(9, 20_000)])
async def test_group_of_which_no_two_fit_together_has_no_score_and_costs_no_call(
    connect: Connect, anchor: str | None
) -> None:
    answers = (answer(1, 900), answer(2, 20_000), answer(3, 900)) if anchor is None else ANSWERS
    judgment, bodies = await judged(connect, "never", answers, anchor=anchor)
    assert scores_of(judgment) == [None] * len(answers) and bodies == []
    assert all("too long" in member.explanation for member in judgment.members)


@pytest.mark.parametrize(("words", "is_shown"), [(20, True), (2000, False)])
async def test_repair_leaves_out_what_would_make_it_too_long(
    connect: Connect, words: int, is_shown: bool
) -> None:
    said = "I cannot say. " * words
    judgment, (_, repair) = await judged(connect, said, ANSWERS[:2])
    assert scores_of(judgment) == [None, None]
    assert repair["messages"][2] == {"role": "assistant", "content": said if is_shown else "…"}
    assert tokens(repair) <= LIMIT


@given(
    words=st.lists(st.integers(0, 900), min_size=2, max_size=20),
    limit=st.integers(256, 4000),
    has_anchor=st.booleans(),
)
def test_chunks_have_every_text_once_but_the_shared_one_and_fit(
    words: list[int], limit: int, has_anchor: bool
) -> None:
    texts = [answer(number, count) for number, count in enumerate(words)]
    task = JudgeTask("Why?", (), baseline=texts[0] if has_anchor else None)
    chunks = divide_texts(
        shared_texts(task),
        texts,
        ListwiseJudgeSettings(judge_max_input_tokens=limit),
        "key",
        task.baseline,
    )
    shown = [text for chunk in chunks.shown for text in chunk]
    assert {*shown} | {*chunks.left_out} == {*texts} and not {*shown} & {*chunks.left_out}
    once = [text for text in shown if text != chunks.link]
    assert len({*once}) == len(once)
    if len(chunks.shown) > 1:
        assert all(chunks.link in chunk for chunk in chunks.shown)
    if has_anchor and chunks.shown:
        assert all(texts[0] in chunk for chunk in chunks.shown)
    for chunk in chunks.shown:
        assert len(chunk) >= 2
        prompt = listwise_prompt(
            shared_texts(task), {f"{number:05}": text for number, text in enumerate(chunk)}
        )
        assert sum(count_tokens(message["content"]) for message in prompt.messages) <= limit


@pytest.mark.parametrize(
    ("character", "tokens"), [("7", 1), ("\U00013000", 4), ("語", 1), ("é", 1)]
)
def test_texts_of_which_tokenizers_make_many_tokens_count_as_many(
    character: str, tokens: int
) -> None:
    """Otherwise a completion of digits could make a prompt too long for the judge, and cost its group the verdicts."""
    assert estimate_tokens(character * 1000) >= 1000 * tokens
