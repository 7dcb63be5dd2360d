"""What an aspect's judge said: a yes, a no or nothing that could be read."""

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.judges.parsing.labels import binary_verdict, verdict_reason

WORDS_OF_VERDICTS = {
    *("yes", "no", "true", "false", "pass", "passed", "fail", "failed", "none", "null", "na"),
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
}
"""Words that say a value, with those of wrong scales; a judge's own last word, where one stands alone."""
PIECES = st.sampled_from(
    [
        *("{", "}", '"', "'", "\\", ":", ",", "[", "]", '"verdict"', '"reason"', '{"verdict": 1}'),
        *(
            '{"reason": "r", "verdict": 0}',
            '"verdict": 1',
            '"verdict": 0}',
            "```",
            "```json\n",
            "<think>",
        ),
        *("</think>", "1", "0", "NaN", "1e400", "\n", " ", "\ud800"),
    ]
)
HOSTILE = st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join)


def test_a_verdict_in_the_prose_behind_an_object_contests_it() -> None:
    assert binary_verdict('{"verdict": 1}\nOr rather {"reason": "it "is", "verdict": 0}') is None
    assert binary_verdict('{"verdict": 1}\nOr rather {"reason": "it is", "verdict": 0') is None
    assert binary_verdict('"verdict": 0 {"verdict": 1} and no more') is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"reason": "since", "verdict": 1}', "since"),
        ('{"verdict": 0, "Reason": "since"}', "since"),
        ('{"reason": "a\\n\\"b\\" {c}", "verdict": 1}', 'a\n"b" {c}'),
        ('{"reason": "", "verdict": 1}', ""),
        ('{"reason": "first", "verdict": 1}\n{"reason": "then", "verdict": 0}', "then"),
        ('{"reason": "since", "verdict": 1} {"note": "of nothing"}', "since"),
        ('{"reason": "since", "verdict": 1} {"reason": "of nothing"}', None),
        ('{"reason": "first", "verdict": 1}\n{"verdict": 0}', None),
        ('{"reason": ["since"], "verdict": 1}', None),
        ('{"reason": null, "verdict": 1}', None),
        ('{"reason": "since"}', None),
        ('<think>{"reason": "lean", "verdict": 1}</think>{"verdict": 1}', None),
        ("since", None),
        ("", None),
    ],
)
def test_the_reason_is_that_of_the_verdict(text: str, reason: str | None) -> None:
    assert verdict_reason(text) == reason


def test_a_reason_can_be_written_as_utf8() -> None:
    """An escape may make a lone surrogate, which no file and no terminal takes."""
    reason = verdict_reason('{"reason": "since \\ud800 \\ud83d\\ude00 it", "verdict": 1}')
    assert reason is not None
    assert "\U0001f600" in reason
    assert reason.encode("utf-8").decode("utf-8") == reason


@pytest.mark.parametrize("word", sorted(WORDS_OF_VERDICTS))
def test_a_value_that_is_said_behind_leaves_no_other_verdict(word: str) -> None:
    for form, said in product(("{}", "**{}**", "{}.", "My verdict is {}."), (word, word.upper())):
        text = '{"reason": "since", "verdict": %d}\n\n' + form.format(said)
        means = {"yes": True, "true": True, "no": False, "false": False}.get(word)
        assert [binary_verdict(text % value) for value in (0, 1)] == [
            False if means is False else None,
            True if means is True else None,
        ]


@given(
    HOSTILE.filter(lambda text: "</think>" not in text), st.booleans(), st.booleans(), st.booleans()
)
def test_a_reason_may_say_anything(
    reason: str, yes: bool, verdict_first: bool, escaped: bool
) -> None:
    reason = reason.replace("\ud800", "")
    fields = (
        {"verdict": int(yes), "reason": reason}
        if verdict_first
        else {"reason": reason, "verdict": int(yes)}
    )
    text = json.dumps(fields, ensure_ascii=escaped)
    assert (binary_verdict(text), verdict_reason(text)) == (yes, reason)
