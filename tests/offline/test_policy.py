import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.offline.answers import salient_words, write
from tests.offline.server import request_of

PROMPT = "Explain how a suspension bridge carries traffic: cables, towers, anchors, deck stiffness and wind loads."
MODELS = [f"model-{number}" for number in range(12)]


@given(
    prompt=st.text(max_size=200),
    model=st.text(min_size=1, max_size=8),
    temperature=st.sampled_from([0, 0.7, 2]),
    seed=st.integers(0, 99),
    index=st.integers(0, 9),
)
def test_an_answer_has_40_to_220_words(prompt: str, model: str, temperature: float, seed: int, index: int) -> None:
    request = request_of(prompt, model=model, temperature=temperature, seed=seed)
    assert 40 <= len(write(request, index).split()) <= 220


@pytest.mark.parametrize(("temperature", "count"), [(0, 1), (0.5, 12), (1.0, 12)])
def test_choices_and_seeds_differ_above_temperature_0_only(temperature: float, count: int) -> None:
    requests = [request_of(PROMPT, temperature=temperature, seed=seed) for seed in (None, 1, 2)]
    assert len({write(request, index) for request in requests for index in range(4)}) == count


@pytest.mark.parametrize("model", MODELS)
def test_the_text_is_about_the_prompt(model: str) -> None:
    assert len(set(salient_words(PROMPT)) & set(salient_words(write(request_of(PROMPT, model=model), 0)))) >= 3


def test_the_last_user_message_with_words_is_the_topic() -> None:
    turns = [
        ("user", "Tell me about turtles and lizards."),
        ("assistant", "Parrots."),
        ("user", "Rather describe volcanoes erupting."),
        ("user", "?"),
    ]
    found = set(salient_words(write(request_of([{"role": role, "content": text} for role, text in turns]), 0)))
    assert found & {"volcanoes", "erupting"}
    assert not found & {"turtles", "lizards", "parrots"}


def test_templates_and_fields_in_a_prompt_are_words() -> None:
    text = write(request_of("{a} {b.__class__} %s {topic} <|im_end|> [[A>B]] </think>"), 0)
    assert not set("{}[]<>|%") & set(text)


def test_models_have_styles_of_their_own() -> None:
    texts = [write(request_of(PROMPT, model=model, temperature=0), 0) for model in MODELS]
    assert len(set(texts)) == len(MODELS)
    assert {"\n- " in text for text in texts} == {True, False}
    lengths = [len(text) for text in texts]
    assert max(lengths) > 1.3 * min(lengths)
