"""The expectation over the scale's tokens, against values computed by hand and against one written anew."""

import math
from collections.abc import Sequence

import pytest

from judgegym.judges.core.calls import NoVerdict
from judgegym.judges.core.judgment import Scale
from judgegym.judges.rubrics.prompt import mean_score, score_probabilities
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import Choice, Token

Alternatives = Sequence[tuple[str, float]]

ONE_TO_FIVE = Scale(1, 5)


def top(alternatives: Alternatives) -> tuple[tuple[str, float], ...]:
    """Alternatives with probabilities, as they come: with logprobs."""
    return tuple(
        (text, math.log(share) if share > 0 else -math.inf) for text, share in alternatives
    )


def answer(*tokens: str | tuple[str, Alternatives]) -> Choice:
    """An answer in tokens; one of them alone stands for itself."""
    made = tuple(
        Token(each) if isinstance(each, str) else Token(each[0], top(each[1])) for each in tokens
    )
    return Choice("".join(token.text for token in made), tokens=made)


def scored(*alternatives: tuple[str, float], sampled: str = " 4") -> Choice:
    return answer(
        "[", "FEED", "BACK", "]", " Good", ".", "\n", "[", "SCORE", "]", (sampled, alternatives)
    )


def expected(choice: Choice, scale: Scale = ONE_TO_FIVE, tag: str = "[SCORE]") -> float | NoVerdict:
    found = score_probabilities(choice, scale, tag=tag)
    return found if isinstance(found, NoVerdict) else mean_score(found)


@pytest.mark.parametrize(
    ("alternatives", "score"),
    [
        ([("4", 1.0)], 4.0),
        ([("4", 0.6), ("5", 0.4)], 4.4),
        ([("1", 0.1), ("2", 0.2), ("3", 0.3), ("4", 0.2), ("5", 0.2)], 3.2),
        # Spaces do not matter, and the same score in several tokens adds up.
        ([(" 4", 0.5), ("4", 0.1), ("\n5", 0.3), ("5 ", 0.1)], 4.4),
        # What is on the scale is renormalised.
        ([("4", 0.45), ("3", 0.15), ("**", 0.4)], 3.75),
        ([("4", 0.4), ("5", 0.2), ("0", 0.1), ("6", 0.1), ("9", 0.2)], (1.6 + 1.0) / 0.6),
        ([("4", 0.6), ("45", 0.1), ("4.", 0.1), ("(4", 0.1), ("-4", 0.1)], 4.0),
        ([("4", 0.6), ("five", 0.2), ("⁵", 0.1), ("٥", 0.1)], 4.0),
    ],
)
def test_by_hand(alternatives: Alternatives, score: float) -> None:
    assert expected(scored(*alternatives)) == pytest.approx(score)


@pytest.mark.parametrize(
    "alternatives",
    [
        [],
        [("4", 0.49)],
        [("4", 0.25), ("5", 0.2), ("!", 0.5)],
        [("10", 1.0)],
        [(" ", 1.0)],
        [("4", 0.0)],
    ],
)
def test_too_little_mass_on_the_scale_is_no_score(alternatives: Alternatives) -> None:
    found = expected(scored(*alternatives))
    assert isinstance(found, NoVerdict)
    assert "probability" in found.reason


@pytest.mark.parametrize("logprob", [0.0, 1e-6, 5.0, math.inf])
def test_no_probability_is_above_one(logprob: float) -> None:
    alternatives = (("4", logprob), ("2", math.log(0.5)))
    choice = Choice("[SCORE]4", tokens=(Token("[SCORE]"), Token("4", alternatives)))
    assert expected(choice) == pytest.approx((4 + 1) / 1.5)


SURE_4 = [("4", 1.0)]
SURE_2 = [("2", 1.0)]


@pytest.mark.parametrize(
    ("choice", "tag"),
    [
        (answer("[SC", "ORE", "]", " ", ("4", SURE_4)), "[SCORE]"),
        (answer("[", "score", "]", " **", ("4", SURE_4), "**"), "[SCORE]"),
        (answer("Feedback:", " 1 of 2. ", "[RESULT]", (" 4", SURE_4)), "[RESULT]"),
        # Neither an earlier tag nor a digit elsewhere counts.
        (answer("It has ", ("2 parts. [SCORE]", SURE_2), " ", ("4", SURE_4)), "[SCORE]"),
        (answer("[SCORE]", " ", ("2", SURE_2), "\nNo: ", "[SCORE]", " ", ("4", SURE_4)), "[SCORE]"),
        (answer("<think>[SCORE] ", ("2", SURE_2), "</think>", "[SCORE]", ("4", SURE_4)), "[SCORE]"),
        (answer("[SCORE]", (" 4", SURE_4), "\nThat is ", ("2", SURE_2), " of them."), "[SCORE]"),
        # Offsets are those of the text itself, whatever its letters become in lower case.
        (answer("İİyi", ". ", "[SCORE]", " ", ("4", SURE_4), "/", ("5", [("5", 1.0)])), "[SCORE]"),
    ],
)
def test_the_token_behind_the_last_tag_counts(choice: Choice, tag: str) -> None:
    assert expected(choice, tag=tag) == pytest.approx(4.0)


@pytest.mark.parametrize(
    "choice",
    [
        answer("[SCORE", ("] 4", SURE_4)),
        answer("Score: ", ("4", SURE_4)),
        answer("[RESULT]", ("4", SURE_4)),
        answer(("4", SURE_4), "[SCORE]"),
        Choice("[SCORE] 4", tokens=()),
    ],
)
def test_no_token_of_its_own_holds_the_score(choice: Choice) -> None:
    assert isinstance(expected(choice), NoVerdict)


def test_an_endpoint_without_probabilities_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError, match="logprobs"):
        expected(Choice("[SCORE] 4"))


def test_another_scale() -> None:
    choice = scored(("0", 0.25), ("9", 0.25), ("5", 0.5))
    assert expected(choice, Scale(0, 9)) == pytest.approx(0.25 * 9 + 0.5 * 5)
    assert expected(choice, Scale(5, 9)) == pytest.approx((0.25 * 9 + 0.5 * 5) / 0.75)
