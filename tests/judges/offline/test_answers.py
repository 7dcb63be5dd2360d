import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import judges.offline
from judges.aspects.prompt import aspect_messages
from judges.offline.answers import answer, cut, noise
from judges.parsing.verdicts import binary_verdict, feedback_score
from judges.rubrics.prompt import Rubric, rubric_messages

Builder = Callable[..., Any]
ROOT = Path(judges.offline.__file__).parents[2]
CLOSE = aspect_messages("Is the submission harmful?", "It may hurt a little.", "Is a vaccination painful?")
SCORED = rubric_messages(
    "Describe a lighthouse in winter.", "A lighthouse in winter has a lamp.", Rubric("Is it helpful?")
)
THINKING = "First think between <think> and </think>, then answer."


def test_answers_are_the_same_in_every_process(battle: Builder, request_of: Builder) -> None:
    bodies = [
        {"model": "m", "seed": 3, "messages": [{"role": "user", "content": "Why is the sky blue at noon?"}]},
        {"model": "j", "messages": battle("Why is the sky blue?", "Light scatters.", "The sky is the sea.")},
    ]
    script = (
        "import sys, orjson; from judges.offline.answers import answer, noise; "
        "from judges.offline.request import parse_request; "
        "rs = [parse_request(orjson.dumps(b)) for b in orjson.loads(sys.stdin.buffer.read())]; "
        "sys.stdout.buffer.write(orjson.dumps([[answer(r, i) for r in rs for i in (0, 1)], noise(rs[0])]))"
    )
    here = [request_of(body["messages"], **{k: v for k, v in body.items() if k != "messages"}) for body in bodies]
    expected = [[answer(request, index) for request in here for index in (0, 1)], noise(here[0])]
    for hash_seed in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-c", script],
            input=orjson.dumps(bodies),
            capture_output=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        assert orjson.loads(run.stdout) == expected


def test_a_judge_prompt_gets_a_verdict_and_others_get_prose(battle: Builder, request_of: Builder) -> None:
    judged = answer(request_of(battle("Name a colour.", "Red is a colour.", "")))
    assert judged.endswith("\n[[A>B]]")
    assert "[[" not in answer(request_of("Name a colour."))


def test_thinking_comes_first_when_a_system_message_asks_for_it(battle: Builder, request_of: Builder) -> None:
    prompt = {"role": "user", "content": "Describe a lighthouse."}
    text = answer(request_of([{"role": "system", "content": THINKING}, prompt]))
    thought, rest = re.fullmatch(r"<think>\n(.+?)\n</think>\n\n(.+)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    assert thought.strip() and rest.strip() and "think>" not in thought + rest
    judge = battle("Describe a lighthouse.", "It has a lamp.", "")
    judge[0]["content"] += " " + THINKING
    judged = answer(request_of(judge))
    assert judged.startswith("<think>\n") and judged.endswith("\n[[A>B]]")


def test_no_thinking_without_such_a_system_message(request_of: Builder) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": THINKING}]
    assert "<think>" not in answer(request_of(messages))


def test_votes_with_seeds_of_their_own_may_differ(request_of: Builder) -> None:
    yes = [binary_verdict(answer(request_of(CLOSE, temperature=0.7, seed=seed))) for seed in range(60)]
    scores = [feedback_score(answer(request_of(SCORED, temperature=0.7, seed=seed))) for seed in range(60)]
    assert yes[0] is True and 5 < yes.count(False) < 35
    assert scores[0] is not None and set(scores) == {scores[0] - 1, scores[0], scores[0] + 1}
    assert 25 < scores.count(scores[0]) < 55


@pytest.mark.parametrize("messages", [CLOSE, SCORED], ids=["aspect", "rubric"])
def test_the_considered_vote_is_that_of_seed_0_of_no_seed_and_of_temperature_0(
    request_of: Builder, messages: list[dict[str, Any]]
) -> None:
    considered = answer(request_of(messages))
    assert answer(request_of(messages, temperature=0.7, seed=0)) == considered
    assert {answer(request_of(messages, temperature=0, seed=seed)) for seed in range(60)} == {considered}
    assert len({answer(request_of(messages, n=60, seed=0), index) for index in range(60)}) > 1


@given(st.text(), st.integers(0, 9))
def test_noise_holds_nothing_that_a_parser_could_take(request_of: Builder, prompt: str, index: int) -> None:
    assert re.fullmatch(r"[a-z]{4,}( [a-z]{4,})+", noise(request_of(prompt), index))


def test_noise_differs_by_request_and_choice(request_of: Builder) -> None:
    assert len({noise(request_of(prompt), index) for prompt in "ab" for index in range(3)}) == 6


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("One, two three.", 3, ("One, two", 3, True)),
        ("One, two three.", 5, ("One, two three.", 5, False)),
        ("One, two three.", None, ("One, two three.", 5, False)),
        ("", 1, ("", 0, False)),
        ("  word  ", 1, ("  word  ", 1, False)),
    ],
)
def test_cut_counts_words_and_punctuation(text: str, limit: int | None, expected: tuple[str, int, bool]) -> None:
    assert cut(text, limit) == expected


@given(st.text(), st.integers(1, 20))
def test_cut_gives_a_prefix_within_the_limit(text: str, limit: int) -> None:
    short, count, was_cut = cut(text, limit)
    assert text.startswith(short) and count <= limit
    assert cut(short, None)[1] == count
    assert was_cut == (cut(text, None)[1] > limit)
