import os
import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import judgegym.offline
from judgegym.offline.answers import answers, noise
from judgegym.offline.request import BadRequest, cut
from tests.offline.kinds import KINDS
from tests.offline.server import request_of

ROOT = Path(judgegym.offline.__file__).parents[2]
THINKING = "First think between <think> and </think>, then answer."
ARENA = KINDS["arena"]


@pytest.mark.slow
def test_answers_are_the_same_in_every_process() -> None:
    bodies = [
        {"model": "m", "seed": 3, "n": 2, "messages": [{"role": "user", "content": "Why is the sky blue at noon?"}]},
        {"model": "j", "n": 2, "messages": ARENA.show("Why is the sky blue?", "Light scatters.")},
    ]
    script = (
        "import sys, orjson; from judgegym.offline.answers import answers, noise; "
        "from judgegym.offline.request import parse_request; "
        "rs = [parse_request(orjson.dumps(b)) for b in orjson.loads(sys.stdin.buffer.read())]; "
        "sys.stdout.buffer.write(orjson.dumps([*map(answers, rs), noise(rs[0])]))"
    )
    here = [request_of(**body) for body in bodies]
    expected = [*map(answers, here), noise(here[0])]
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


def test_a_prompt_of_no_judge_gets_prose_or_from_a_judge_alone_an_error_with_its_titles() -> None:
    request = request_of([{"role": "user", "content": "### Principles\n\nBe brief.\n\n[Answer]\nWell."}])
    assert "[[" not in answers(request)[0]
    with pytest.raises(BadRequest, match=r"does not know this prompt.*--prompt.*'Principles', 'Answer'"):
        answers(request, judge_only=True)
    assert answers(request_of(ARENA.show("Why?", "So.")), judge_only=True)[0].endswith("]]")


@pytest.mark.parametrize("messages", [ARENA.show("Why?", "So."), [{"role": "user", "content": "Why?"}]])
def test_thinking_comes_first_when_a_system_message_asks_for_it(messages: list[dict[str, str]]) -> None:
    text = answers(request_of([{"role": "system", "content": THINKING}, *messages]))[0]
    found = re.fullmatch(r"<think>\n(.+?)\n</think>\n\n(.+)", text, re.DOTALL)
    assert found and found[1].strip() and "think>" not in found[1] + found[2]
    assert "think>" not in answers(request_of([*messages, {"role": "user", "content": THINKING}]))[0]


@given(st.text(), st.integers(0, 9))
def test_noise_holds_nothing_that_a_parser_could_take(prompt: str, index: int) -> None:
    assert re.fullmatch(r"[a-z]{4,}( [a-z]{4,})+", noise(request_of(prompt), index))


def test_noise_differs_by_request_and_choice() -> None:
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
