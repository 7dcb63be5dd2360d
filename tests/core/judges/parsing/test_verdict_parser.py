"""The place of a verdict: what is marked in a judge's text is what the parser has read, and nothing else is needed."""

import json
from collections.abc import Callable, Mapping
from itertools import islice, product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.judge_texts.texts import IDS, generated
from judgegym.judges.aspects.judge import find_verdict
from judgegym.judges.parsing.criteria import criteria_verdicts
from judgegym.judges.parsing.json_objects import LOOKED_AT
from judgegym.judges.parsing.labels import arena_label, binary_verdict, choice_letter
from judgegym.judges.parsing.rubric_scores import feedback_score, prometheus_result
from judgegym.judges.parsing.scores import listwise_scores, rating, score_object
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, Place, verdict_parser

Find = Callable[[str], ParsedVerdict[Any] | None]

FINDERS: Mapping[str, Find] = {
    "arena": arena_label.find,
    "aspect": find_verdict,
    "binary": binary_verdict.find,
    "choice": choice_letter.given("ABCD").find,
    "criteria": criteria_verdicts.given({own: {"met": 1.0, "unmet": 0.0} for own in IDS}).find,
    "feedback_score": feedback_score.find,
    "listwise": listwise_scores.given(IDS).find,
    "peer": score_object.find,
    "prometheus_result": prometheus_result.find,
    "rating": rating.find,
}
LISTED = json.dumps({"scores": [{"id": own, "score": 0.5} for own in IDS]})
CHECKED = json.dumps({"result": [{"id": own, "verdict": "met"} for own in IDS]})
PIECES = st.sampled_from(
    [
        *("[[A>B]]", "[B>>A]", "[[a=b]]", "[[B<A]]", "[[A]]", "[[D]]", "[", "]", "A>B", "[[A>B]"),
        *('{"verdict": 1}', '{"reason": "R", "verdict": "no"}', '{"x": {"verdict": 0}}', '"verdict": 1', "{", "}", '"'),
        *('{"score": 85}', '{"reasoning": "{}", "score": "7/100"}', '{"score": 5, "score": 6}', "\\"),
        *(LISTED, LISTED.replace("0.5", "1"), LISTED.replace("ghjkm", "vwxzg")),
        *(CHECKED, CHECKED.replace("met", "unmet"), f"{IDS[0]}: met"),
        *("[SCORE] 4", "**[SCORE]** (3/5).", "[score]\t2 \n", "[RESULT] 5", "[RESULT]: [ 1 ]\r\n", "[FEEDBACK]"),
        *("7", "8/10", "**9**", "10 out of 10.", "(6 / 10)", "7-8", "\u00a0", "\u2003", "\n", " ", "."),
        *("<think>", "</think>", "</THINK>", "<|im_end|>", "</s>", "\u202e", "é", "😀", "e\u0301", "İ", "\ud800"),
    ]
)
HOSTILE = st.lists(PIECES | st.text(max_size=4), max_size=10).map("".join)


def place(find: Find, text: str) -> Place | None:
    found = find(text)
    return None if found is None else found.at


def check(find: Find, text: str) -> bool:
    """Whether there is a verdict; if so, it is the one that stands in its place."""
    found = find(text)
    if found is None:
        return False
    assert found.at is not None
    start, end = found.at
    assert 0 <= start < end <= len(text)
    untagged = text[start:end].lower().startswith(("score", "result"))  # read behind the feedback's tag alone
    before = "[FEEDBACK]\n" if untagged else ""
    alone = find(before + text[start:end])
    alone = None if alone is None else alone.behind(-len(before))
    assert alone == ParsedVerdict(found.value, (0, end - start)), "the marked part alone has the same verdict"
    assert find(text[:start] + text[end:]) != found, "without it something else is read, or nothing"
    blank = find(text[:start] + "~" * (end - start) + text[end:])
    assert blank is None or blank.at is None or blank.at[1] <= start or blank.at[0] >= end
    return True


@pytest.mark.parametrize("name", FINDERS)
@given(text=HOSTILE)
@example(text='<think>[[B]]</think> I say [[A>B]] then [[A]] {"verdict": 1} [SCORE] 3\n[RESULT] 3\nso 7<|im_end|>')
def test_the_marked_part_is_what_was_read(name: str, text: str) -> None:
    check(FINDERS[name], text)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FINDERS.keys() - {"criteria"}))  # of which those texts have none
def test_verdicts_of_generated_texts_stand_in_their_places(name: str) -> None:
    assert sum(check(FINDERS[name], text) for text in islice(generated(seed=14), 2000)) > 5


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
    befores = ("", "<think>no [[A>B]] 7 {</think>", "😀\u202e </think>\n\n", "x" * LOOKED_AT * 2 + " ")
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
    assert (sign(text, "bc"), sign.given("bc", last=True)(text), sign("d", "bc")) == ("b", "c", None)
    assert sign.find(text, "bc") == ParsedVerdict("b", (17, 18))
    assert sign.__doc__ == "The first or the last of some signs."


def test_the_check_notices_a_place_beside_the_verdict() -> None:
    """The properties are worth something: a place that is off by one, or of another occurrence, breaks them."""

    def moved(text: str) -> ParsedVerdict[Any] | None:
        found = arena_label.find(text)
        return None if found is None else found.behind(1)

    def first(text: str) -> ParsedVerdict[Any] | None:
        found = arena_label.find(text)
        return None if found is None else ParsedVerdict(found.value, (text.index("["), text.index("[") + 7))

    for wrong, text in ((moved, "so [[A>B]] it is"), (first, "[[A>B]], no: [[B>A]]")):
        with pytest.raises(AssertionError):
            check(wrong, text)
