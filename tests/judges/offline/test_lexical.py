import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.offline.lexical import (
    LOOKED_AT,
    STOPWORDS,
    advantage,
    coverage,
    features,
    merit,
    salient_words,
    words,
)

QUESTION = "How do glaciers shape valleys, and how long does erosion take?"
GOOD = "Glaciers shape valleys by erosion: the ice drags rock along, which takes a long time, often many centuries."
POOR = "I like turtles because they are calm and live for many years in warm water near some sunny beach."


def test_words_are_lower_case_runs_of_letters_and_digits() -> None:
    assert words("It's 2x Über_alles, naïve!") == ["it", "s", "2x", "über", "alles", "naïve"]
    assert words("AI 日本語 text") == ["ai", "日", "本", "語", "text"]


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_text_has_the_same_words_beside_other_letters(text: str) -> None:
    assert words(text) == words(text + " é")[:-1]


@given(st.text())
def test_features_are_within_their_bounds(text: str) -> None:
    found = features(text)
    assert 0 <= len(found.content) <= found.length
    assert 0 < found.fresh <= 1
    assert not found.content & STOPWORDS


def test_only_the_head_of_a_text_counts() -> None:
    head = "word " * (LOOKED_AT // 5)
    assert features(head + "unseen " * 1000) == features(head)
    assert features(head[:-10] + "unseen") != features(head)


def test_salient_words_keep_their_order_and_come_once() -> None:
    assert salient_words("The valley and the glacier: a Valley, an ox, " + "x" * 30) == ("valley", "glacier")


def test_coverage_is_the_share_of_the_question() -> None:
    question = features("red green blue black")
    assert coverage(question, features("Blue, red and pink")) == 0.5
    assert coverage(features(""), features("anything")) == 0.0


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (GOOD, POOR),
        (GOOD, ""),
        (GOOD, GOOD[:20]),
        (GOOD, "glaciers shape valleys " * 30),
    ],
    ids=["coverage", "empty", "length", "repetition"],
)
def test_the_better_answer_has_the_advantage(better: str, worse: str) -> None:
    assert advantage(QUESTION, better, worse) > 0.02


def test_agreement_with_the_other_answer_counts() -> None:
    asked, reference = features(""), features("ice drags rock")
    assert merit(asked, features("ice drags rock"), reference) > merit(asked, features("sun melts snow"), reference)


@given(st.text(), st.text(), st.text())
def test_advantage_is_antisymmetric_and_bounded(question: str, first: str, second: str) -> None:
    there, back = advantage(question, first, second), advantage(question, second, first)
    assert there == -back
    assert -1 <= there <= 1
    assert advantage(question, first, first) == 0
