"""JSON objects in prose: all outermost ones, the last one first, each with the prose behind it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.judges.parsing import json_objects
from judgegym.judges.parsing.json_objects import CHARACTERS_READ, find_objects, prose_before


def found(text: str) -> list[tuple[dict[str, Any], str]]:
    """The objects with the text behind each that is in no other object."""
    listed, until, behind = [], len(text), ""
    for each in find_objects(text):
        behind = text[each.at[1] : until] + behind
        listed.append((dict(each.fields), behind))
        until = each.at[0]
    return listed


@pytest.mark.parametrize(
    ("text", "objects"),
    [
        ("", []),
        ("no object", []),
        ("{", []),
        ("}{", []),
        ("[1, 2]", []),
        ('"{}', [({}, "")]),
        ("{}", [({}, "")]),
        ('{"a": 1} behind', [({"a": 1}, " behind")]),
        ('{"a": 1} two {"b": 2} three', [({"b": 2}, " three"), ({"a": 1}, " two  three")]),
        ('{"a": 1}{"b": 2}', [({"b": 2}, ""), ({"a": 1}, "")]),
        ('{"a": {"b": {"c": 1}}}', [({"a": {"b": {"c": 1}}}, "")]),
        ('[{"a": 1}, {"b": 2}]', [({"b": 2}, "]"), ({"a": 1}, ", ]")]),
        ('{"A": 1, "ReaSon": "R"}', [({"a": 1, "reason": "R"}, "")]),
        ('{"a": "{\\"b\\": 1}"}', [({"a": '{"b": 1}'}, "")]),
        ('{"a": "two\nlines"}', [({"a": "two\nlines"}, "")]),
        ('{"a": {"b": 1}', [({"b": 1}, "")]),
        ('{x {"a": 1} y}', [({"a": 1}, " y}")]),
        ('{"a": "it says {"b": 1} of it"}', [({"b": 1}, ' of it"}')]),
        (
            '```json\n{\n  "a": [1, 2.5, null, true]\n}\n```',
            [({"a": [1, 2.5, None, True]}, "\n```")],
        ),
        ('{"a": 1,}', []),
        ("{'a': 1}", []),
        ('{"a": 1e400}', [({"a": float("inf")}, "")]),
    ],
)
def test_the_objects_of_a_text(text: str, objects: list[tuple[dict[str, Any], str]]) -> None:
    assert found(text) == objects


def test_only_the_end_of_a_long_text_is_looked_at() -> None:
    last = '{"a": 1}'
    assert found(last + "x" * (CHARACTERS_READ - len(last))) == [
        ({"a": 1}, "x" * (CHARACTERS_READ - len(last)))
    ]
    assert found(last + "x" * (CHARACTERS_READ - len(last) + 1)) == []
    assert found('{"b": 2}' + "x" * CHARACTERS_READ + last) == [({"a": 1}, "")]


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ('It is short.\n\n{"score": 1}', "It is short."),
        ('It is short.\n```json\n{"score": 1}\n```\nThat is all.', "It is short."),
        ('It is short.\n```\n{"score": 1}\n```', "It is short."),
        ('{"score": 1} It is short. {"score": 2}', '{"score": 1} It is short.'),
        ('It is short. {"score": 1} {"note": "so"}', "It is short."),
        ('Of {"note": "so"}: {"SCORE": 1}', 'Of {"note": "so"}:'),
        ('{"score": 1}', ""),
        ("It is short.", "It is short."),
        ('It has {"note": "so"} alone.', 'It has {"note": "so"} alone.'),
        (" ", ""),
    ],
)
def test_the_prose_ahead_of_the_last_object_with_a_field(text: str, prose: str) -> None:
    assert prose_before(text, "score") == prose


def spans_one_by_one(text: str) -> list[tuple[int, int]]:
    """The outermost objects of a short text, by trying every brace: slow, and plainly right."""
    decoder, spans, position = json.JSONDecoder(strict=False), [], text.find("{")
    while position >= 0:
        try:
            _, end = decoder.raw_decode(text, position)
        except ValueError:
            end = position + 1
        else:
            spans.append((position, end))
        position = text.find("{", end)
    return spans


BRACES_AND_QUOTES = st.lists(
    st.sampled_from(
        [
            '"',
            '\\"',
            "\\",
            "{",
            "}",
            ":",
            ",",
            '{"a":',
            '"b":{',
            '{"c":1}',
            "1",
            "\n",
            '"{\\"d\\":"',
        ]
    ),
    max_size=25,
).map("".join)


@given(BRACES_AND_QUOTES)
def test_the_objects_are_those_that_trying_every_brace_finds(text: str) -> None:
    assert [match.at for match in find_objects(text)] == spans_one_by_one(text)[::-1]


class CountingDecoder(json.JSONDecoder):
    """Counts the characters that it has read."""

    read = 0

    def raw_decode(self, text: str, start: int = 0) -> tuple[Any, int]:
        try:
            value, end = super().raw_decode(text, start)
        except json.JSONDecodeError as error:
            self.read += error.pos - start + json_objects.FAILED_ATTEMPT
            raise
        except RecursionError:
            self.read += len(text) - start
            raise
        self.read += end - start
        return value, end


@pytest.mark.parametrize(
    "text",
    [
        "{" * CHARACTERS_READ,
        "}" * CHARACTERS_READ,
        '{"a":' * CHARACTERS_READ,
        '{"a":' * 3000 + "1" + "}" * 3000,
        '{"a":1,' * 1000 + "x" + "}" * 1000,
        "{" * 9000 + '{"a":1}' + "}" * 9000,
        '\\"{' * CHARACTERS_READ,
        '{"a":"' * 2000 + '"}' * 2000,
        '{"a":' + "[" * 9000 + "]" * 9000 + "}",
    ],
    ids=lambda text: text[:12],
)
def test_hostile_braces_cost_a_bounded_amount_of_decoding(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = CountingDecoder(strict=False)
    monkeypatch.setattr(json_objects, "_DECODER", decoder)
    assert list(find_objects(text)) == []
    assert decoder.read <= json_objects.MOST_DECODED + CHARACTERS_READ


def test_an_object_among_some_broken_ones_is_found() -> None:
    code = "if (x) { return f({y: 1}); }\n" * 100
    assert found(f"{code}{{'a': 1}}{{\"a\": 2}}")[0] == ({"a": 2}, "")


@pytest.mark.parametrize(("levels", "count"), [(99, 2), (101, 1)])
def test_an_object_that_is_nested_too_deeply_is_none_in_any_version_of_python(
    levels: int, count: int
) -> None:
    text = '{"verdict": 1} {"a": ' + "[" * levels + "]" * levels + "}"
    assert len(list(find_objects(text))) == count
