"""The place of a verdict: what is marked in a judge's text is what the parser has read, and nothing else is needed."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import pytest

from benchmarks.judge_texts.texts import IDS
from judgegym.judges.aspects.judge import find_verdict
from judgegym.judges.parsing.criteria import criteria_verdicts
from judgegym.judges.parsing.json_objects import CHARACTERS_READ
from judgegym.judges.parsing.labels import arena_label, binary_verdict, choice_letter
from judgegym.judges.parsing.rubric_scores import feedback_score, prometheus_result
from judgegym.judges.parsing.scores import listwise_scores, rating, score_object
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, Place, verdict_parser

Find = Callable[[str], ParsedVerdict[Any] | None]

FINDERS: Mapping[str, Find] = {
    "arena": arena_label.find,
    "aspect": find_verdict,
    "binary": binary_verdict.find,
    "choice": choice_letter.bind("ABCD").find,
    "criteria": criteria_verdicts.bind({own: {"met": 1.0, "unmet": 0.0} for own in IDS}).find,
    "feedback_score": feedback_score.find,
    "listwise": listwise_scores.bind(IDS).find,
    "peer": score_object.find,
    "prometheus_result": prometheus_result.find,
    "rating": rating.find,
}


def place(find: Find, text: str) -> Place | None:
    found = find(text)
    return None if found is None else found.at


@pytest.mark.parametrize(
    ("name", "text", "marked"),
    [
        ("arena", "My verdict: [[A>B]], or rather [[a=b]].", "[[a=b]]"),
        ("arena", "It is [B<<A].", "[B<<A]"),
        ("aspect", 'So: ```{"reason": "R", "verdict": 1}```', '{"reason": "R", "verdict": 1}'),
        ("choice", "[[C]], no: [[D]]!", "[[D]]"),
        ("feedback_score", "[FEEDBACK] Good. **[SCORE] 4 / 5** \nBye", "[SCORE] 4 / 5**"),
        ("prometheus_result", "Feedback: Good. [RESULT] (3)", "[RESULT] (3)"),
        ("peer", '{"score": 400}\n{"score": "85/100"}', '{"score": "85/100"}'),
        ("rating", "Of 10 I give  **7 / 10**.\n", "7"),
        ("rating", "7 7\n\n( 7 out\t of \u00a0 10 )", None),
        ("rating", "7 7\n\n(7 out\t of \u00a0 10)", "7"),
    ],
)
def test_the_place_is_that_of_the_whole_text(name: str, text: str, marked: str | None) -> None:
    befores = (
        "",
        "<think>no [[A>B]] 7 {</think>",
        "😀\u202e </think>\n\n",
        "x" * CHARACTERS_READ * 2 + " ",
    )
    for before, behind in product(befores, ("", "<|im_end|>", " </s>\n")):
        whole = before + text + behind
        at = place(FINDERS[name], whole)
        assert (None if at is None else whole[slice(*at)]) == marked, whole
        if at is not None and name == "rating":
            assert at[0] == len(before) + text.rindex("7")


def test_a_mention_of_thinking_moves_no_place() -> None:
    assert place(arena_label.find, "[[A>B]] <think> never ended") == (0, 7)


def test_a_long_rating_is_found_from_the_end_of_its_white_space() -> None:
    text = "9\n" + " \t\n" * 300 + "(8  out   of \n 10)." + " " * 50
    found = rating.find(text)
    assert found is not None and found.value == 8 and found.at is not None
    assert text[slice(*found.at)] == "8"


def test_a_parser_is_called_for_its_value_and_given_its_arguments() -> None:
    @verdict_parser
    def sign(own: str, signs: str, *, last: bool = False) -> ParsedVerdict[str] | None:
        """The first or the last of some signs."""
        places = [number for number, each in enumerate(own) if each in signs]
        number = places[-1 if last else 0] if places else None
        return None if number is None else ParsedVerdict(own[number], (number, number + 1))

    text = "<think>b</think>abc"
    assert (sign(text, "bc"), sign.bind("bc", last=True)(text), sign("d", "bc")) == (
        "b",
        "c",
        None,
    )
    assert sign.find(text, "bc") == ParsedVerdict("b", (17, 18))
    assert sign.__doc__ == "The first or the last of some signs."
