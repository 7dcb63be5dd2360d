from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.offline.lexical import salient_words
from judges.offline.policy import style, write

Builder = Callable[..., Any]
PROMPT = "Explain how a suspension bridge carries traffic: cables, towers, anchors, deck stiffness and wind loads."
MODELS = [f"model-{number}" for number in range(12)]


@given(
    prompt=st.text(max_size=200),
    model=st.text(min_size=1, max_size=8),
    temperature=st.sampled_from([0, 0.7, 2]),
    seed=st.integers(0, 99),
    index=st.integers(0, 9),
)
def test_an_answer_has_40_to_190_words(
    request_of: Builder, prompt: str, model: str, temperature: float, seed: int, index: int
) -> None:
    request = request_of(prompt, model=model, temperature=temperature, seed=seed)
    assert 40 <= len(write(request, index).split()) <= 190


def test_choices_and_seeds_differ_above_temperature_0(request_of: Builder) -> None:
    texts = {
        write(request_of(PROMPT, temperature=temperature, seed=seed), index)
        for temperature in (0.5, 1.0)
        for seed in (None, 1, 2)
        for index in range(4)
    }
    assert len(texts) == 24


def test_choices_and_seeds_agree_at_temperature_0(request_of: Builder) -> None:
    texts = {write(request_of(PROMPT, temperature=0, seed=seed), index) for seed in (None, 1, 2) for index in range(4)}
    assert len(texts) == 1


def test_the_text_is_about_the_prompt(request_of: Builder) -> None:
    topic = set(salient_words(PROMPT))
    for model in MODELS:
        assert len(topic & set(salient_words(write(request_of(PROMPT, model=model), 0)))) >= 3


def test_the_last_user_message_with_words_is_the_topic(request_of: Builder) -> None:
    messages = [
        {"role": "user", "content": "Tell me about turtles and lizards."},
        {"role": "assistant", "content": "Parrots."},
        {"role": "user", "content": "Rather describe volcanoes erupting."},
        {"role": "user", "content": "?"},
    ]
    found = set(salient_words(write(request_of(messages), 0)))
    assert found & {"volcanoes", "erupting"}
    assert not found & {"turtles", "lizards", "parrots"}


def test_templates_and_fields_in_a_prompt_are_words(request_of: Builder) -> None:
    text = write(request_of("{a} {b.__class__} %s {topic} <|im_end|> [[A>B]] </think>"), 0)
    assert not set("{}[]<>|%") & set(text)


def test_models_have_styles_of_their_own(request_of: Builder) -> None:
    styles = {style(model) for model in MODELS}
    assert len(styles) == len(MODELS)
    assert {one.lists for one in styles} == {True, False}
    assert len({write(request_of(PROMPT, model=model, temperature=0), 0) for model in MODELS}) == len(MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_only_a_model_that_writes_lists_writes_a_list(request_of: Builder, model: str) -> None:
    assert ("\n- " in write(request_of(PROMPT, model=model), 0)) == style(model).lists
