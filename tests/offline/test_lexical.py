import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.offline.answers import LOOKED_AT, merit, quality, salient_words, words
from tests.offline.kinds import FAIR, GOOD, POOR, QUESTION


def test_words_are_lower_case_runs_of_letters_and_digits() -> None:
    assert words("It's 2x Über_alles, naïve!") == ["it", "s", "2x", "über", "alles", "naïve"]
    assert words("AI 日本語 text") == ["ai", "日", "本", "語", "text"]


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_text_has_the_same_words_beside_other_letters(text: str) -> None:
    assert words(text) == words(text + " é")[:-1]


def test_salient_words_keep_their_order_and_come_once() -> None:
    assert salient_words("The valley and the glacier: a Valley, an ox, " + "x" * 30) == ("valley", "glacier")


def test_only_the_head_of_a_text_counts() -> None:
    head = "word " * (LOOKED_AT // 5)
    assert quality(head + "unseen " * 1000) == quality(head)
    assert quality(head[:-10] + "unseen") != quality(head)


@pytest.mark.parametrize("worse", [POOR, "", GOOD[:20], FAIR, f"{GOOD} " * 30])
@pytest.mark.parametrize("reference", ["", GOOD])
def test_coverage_length_and_novelty_make_an_answer_better(worse: str, reference: str) -> None:
    assert quality(GOOD, QUESTION, reference) > quality(worse, QUESTION, reference) + 0.02
    assert quality(GOOD) > quality(worse)


def test_agreement_with_the_reference_counts() -> None:
    assert quality("ice drags rock", "", "ice drags rock") > quality("sun melts snow", "", "ice drags rock")


@given(st.text(), st.text(), st.text())
def test_quality_and_merit_are_within_their_bounds_and_of_one_order(answer: str, question: str, reference: str) -> None:
    found = quality(answer, question, reference)
    assert 0 <= found <= 1 and 0 < merit(found) < 1
    assert merit(found) < merit(found + 0.01)
    assert merit(0.1) < 0.1 and merit(0.9) > 0.9
