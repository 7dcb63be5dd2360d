"""YAML of any kind is a value or one error of one line, at once."""

from __future__ import annotations

import datetime

import pytest

from judgegym.judges.config.fields import MAX_DEPTH
from judgegym.judges.config.presets import load_yaml

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40)
)
MERGE_BOMB = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 40)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 1", {"a": 1}),
        (b"\xef\xbb\xbfa: \xc3\xa9", {"a": "é"}),
        ("common: &c {a: 1, b: 2}\nother: {<<: *c, b: 3}\nlist: [*c, *c]", None),
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH, None),
        ("a: [\n" + "x,\n" * 50_000 + "]", None),
        ("day: 2024-01-31", {"day": datetime.date(2024, 1, 31)}),
    ],
)
def test_value_of_ordinary_text(text: str | bytes, value: object) -> None:
    found = load_yaml(text)
    assert value is None or found == value
    if isinstance(found, dict) and "other" in found:
        assert (found["other"], found["list"]) == ({"a": 1, "b": 3}, [{"a": 1, "b": 2}] * 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [*x]", r"line 1: \*x .*part of itself"),
        ("env: &x\n  b: {c: *x}", r"line 2: \*x .*part of itself"),
        ("a: " + "[" * 20_000, "nested more than 100 deep"),
        (BOMB, r"line \d: more than \d+ values"),
        (MERGE_BOMB, r"line \d+: more than \d+ values"),
        (b"a: \xff\xfe", "not UTF-8: invalid start byte at byte 3"),
        ("a: 1\na: 2", "the name 'a' occurs twice.* line 2"),
        ("env: {seed: 1}\nopenai: {}\nenv: {seed: 2}", "the name 'env' occurs twice"),
        ("a: [", "flow"),
        ("a: *none", "undefined alias"),
        ("a: !!python/object/apply:os.system ['true']", "python"),
        ("a: 2024-13-45", "month"),
        ("a: " + "9" * 5_000, "digits"),
        ("? [a, b]\n: 1", "unhashable|hash"),
        ("a: \0", ".+"),
    ],
)
def test_anything_else_is_one_error_of_one_line(text: str | bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        load_yaml(text)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500
