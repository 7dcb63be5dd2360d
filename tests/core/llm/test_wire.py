"""JSON on the wire, and what an error body says."""

import json
from typing import Any

import pytest

from judgegym.llm import wire


def test_keys_keep_their_order() -> None:
    assert wire.dumps({"b": 1, "a": [True, None, "é"]}) == '{"b":1,"a":[true,null,"é"]}'.encode()


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain é", "plain é"),
        ("\ud800", "�"),
        ("a\udc00\ud800b", "a��b"),
        ("\U0001f600", "\U0001f600"),
    ],
)
def test_scrub_replaces_lone_surrogates(text: str, clean: str) -> None:
    assert wire.scrub(text) == clean
    assert wire.scrub_all({text: [text, {"x": text}], "n": 1}) == {
        clean: [clean, {"x": clean}],
        "n": 1,
    }


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
        (r'"a\ud800b"', "a�b"),
        (rb'{"\udfff": "\ud83d\ude00"}', {"�": "\U0001f600"}),
        (b"[Infinity]", [float("inf")]),
    ],
)
def test_loads_reads_what_orjson_refuses(data: bytes | str, value: Any) -> None:
    assert wire.loads(data) == value


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (2**64, 2.0**64),
        (-(10**30), -1e30),
        (True, True),
    ],
)
def test_an_integer_that_no_reader_holds_is_sent_as_a_float(number: int, written: float) -> None:
    assert (
        json.loads(wire.dumps([number])) == json.loads(wire.dumps_readable([number])) == [written]
    )


def test_an_integer_beyond_all_floats_is_infinite() -> None:
    assert wire.loads(f"[{10**400}, {-(10**400)}]") == [float("inf"), float("-inf")]
    assert wire.dumps([10**400]) == b"[null]"


@pytest.mark.parametrize("data", [b"", b"{", b"nope", b"\xff", b'{"a": 1} x', "'a'"])
def test_what_is_not_json_is_a_value_error(data: bytes | str) -> None:
    with pytest.raises(ValueError):
        wire.loads(data)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a.b", 1),
        ("a", {"b": 1, "0": 2}),
        ("a.0", 2),
        ("a.c", None),
        ("a.b.c", None),
        ("x", None),
        ("list.0", "first"),
        ("list.1.c", 3),
        ("list.2", None),
        ("list.c", None),
        ("list.-1", None),
    ],
)
def test_lookup_follows_a_dotted_path(name: str, value: Any) -> None:
    assert wire.lookup({"a": {"b": 1, "0": 2}, "list": ["first", {"c": 3}]}, name) == value


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"error": {"message": "no such model", "type": "x"}}', "no such model"),
        (b'{"error": "no such model"}', "no such model"),
        (b'{"detail": "not found"}', "not found"),
        (b'{"message": "slow down"}', "slow down"),
        (b'{"error": {"code": 3}}', '{"error": {"code": 3}}'),
        (b'{"detail": [{"loc": ["body"]}]}', '{"detail": [{"loc": ["body"]}]}'),
        (b'{"error": null}', '{"error": null}'),
        (b'"just text"', "just text"),
        (b"<html>\n  <b>Bad</b>\n</html>", "<html> <b>Bad</b> </html>"),
        (b"", "empty body"),
        (b" \n", "empty body"),
        (b"\xff", "�"),
    ],
)
def test_error_text_is_the_message_or_the_body(data: bytes, text: str) -> None:
    assert wire.error_text(data) == text


@pytest.mark.parametrize(
    "data", [b"x" * 10_000, json.dumps({"error": {"message": "x" * 10_000}}).encode()]
)
def test_a_long_error_is_cut(data: bytes) -> None:
    assert wire.shorten(wire.error_text(data)) == "x" * 500 + "…"


def test_a_deep_error_body_is_quoted() -> None:
    assert wire.error_text(b"[" * 100_000).startswith("[[[")


def test_an_excerpt_is_one_line() -> None:
    assert wire.excerpt(b"a\n b\t\tc") == "a b c"
    assert wire.shorten("a\n b\t\tc", 3) == "a b…"
    assert wire.shorten("é€" * 100, 10) == "é€" * 5 + "…"
