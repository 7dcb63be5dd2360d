"""The stand-in's texts: the same in every process, of any prompt, and what tells a judge from a policy."""

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
from judgegym.offline.answers import find_salient_words, make_answers, write_answer, write_noise
from judgegym.offline.request import BadRequest
from tests.core.offline.kinds import KINDS
from tests.core.offline.server import request_of

ROOT = Path(judgegym.offline.__file__).parents[2]
THINKING = "First think between <think> and </think>, then answer."
ARENA = KINDS["arena"]


@pytest.mark.slow
def test_answers_are_the_same_in_every_process() -> None:
    bodies = [
        {
            "model": "m",
            "seed": 3,
            "n": 2,
            "messages": [{"role": "user", "content": "Why is the sky blue at noon?"}],
        },
        {"model": "j", "n": 2, "messages": ARENA.show("Why is the sky blue?", "Light scatters.")},
    ]
    script = (
        "import sys, orjson; from judgegym.offline.answers import make_answers, write_noise; "
        "from judgegym.offline.request import parse_request; "
        "rs = [parse_request(orjson.dumps(b)) for b in orjson.loads(sys.stdin.buffer.read())]; "
        "sys.stdout.buffer.write(orjson.dumps([*map(make_answers, rs), write_noise(rs[0])]))"
    )
    here = [request_of(**body) for body in bodies]
    expected = [*map(make_answers, here), write_noise(here[0])]
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
    request = request_of(
        [{"role": "user", "content": "### Principles\n\nBe brief.\n\n[Answer]\nWell."}]
    )
    assert "[[" not in make_answers(request)[0]
    with pytest.raises(BadRequest, match=r"this prompt.*--prompt.*'Principles', 'Answer'"):
        make_answers(request, judge_only=True)
    assert make_answers(request_of(ARENA.show("Why?", "So.")), judge_only=True)[0].endswith("]]")


@pytest.mark.parametrize(
    "messages", [ARENA.show("Why?", "So."), [{"role": "user", "content": "Why?"}]]
)
def test_thinking_comes_first_when_a_system_message_asks_for_it(
    messages: list[dict[str, str]],
) -> None:
    text = make_answers(request_of([{"role": "system", "content": THINKING}, *messages]))[0]
    found = re.fullmatch(r"<think>\n(.+?)\n</think>\n\n(.+)", text, re.DOTALL)
    assert found and found[1].strip() and "think>" not in found[1] + found[2]
    assert (
        "think>"
        not in make_answers(request_of([*messages, {"role": "user", "content": THINKING}]))[0]
    )


@given(st.text(), st.integers(0, 9))
def test_noise_holds_nothing_that_a_parser_could_take(prompt: str, index: int) -> None:
    assert re.fullmatch(r"[a-z]{4,}( [a-z]{4,})+", write_noise(request_of(prompt), index))


PROMPT = (
    "Explain how a suspension bridge carries traffic: cables, towers, anchors, deck stiffness and "
    "wind loads."
)
MODELS = [f"model-{number}" for number in range(12)]


@given(
    prompt=st.text(max_size=200),
    model=st.text(min_size=1, max_size=8),
    temperature=st.sampled_from([0, 0.7, 2]),
    seed=st.integers(0, 99),
    index=st.integers(0, 9),
)
def test_an_answer_has_40_to_220_words(
    prompt: str, model: str, temperature: float, seed: int, index: int
) -> None:
    request = request_of(prompt, model=model, temperature=temperature, seed=seed)
    assert 40 <= len(write_answer(request, index).split()) <= 220


@pytest.mark.parametrize(("temperature", "count"), [(0, 1), (0.5, 12), (1.0, 12)])
def test_choices_and_seeds_differ_above_temperature_0_only(temperature: float, count: int) -> None:
    requests = [request_of(PROMPT, temperature=temperature, seed=seed) for seed in (None, 1, 2)]
    assert (
        len({write_answer(request, index) for request in requests for index in range(4)}) == count
    )


@pytest.mark.parametrize("model", MODELS)
def test_the_text_is_about_the_prompt(model: str) -> None:
    assert (
        len(
            set(find_salient_words(PROMPT))
            & set(find_salient_words(write_answer(request_of(PROMPT, model=model), 0)))
        )
        >= 3
    )
