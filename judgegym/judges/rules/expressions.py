"""Rules without a known time bound, applied in workers: expression, regex, JSON schema.

Each function imports its library, and returns what compares a text with the expected value. Workers
import this module.

Sources: math-verify (Hugging Face) for expressions; JSON Schema in the draft that a schema names
(`$schema`).
"""

from __future__ import annotations

import json
import logging
import re
from functools import lru_cache
from typing import Any

from judgegym.judges.parsing.json_objects import TextObject, find_objects
from judgegym.judges.rules.finding import Comparison, RuleFinding, cannot_say

_IN_MATHS = re.compile(r"\$|\\\(|\\\[|\\boxed|####")
_FENCED = re.compile(r"```\w*\s*\n(.*?)```", re.DOTALL)


_GOES_BEFORE = re.compile(r"""(?:[\[{]|"\s*:|(?:[\]}]|\b(?:true|false|null))\s*,)\s*\Z""")
_COMES_AFTER = re.compile(r"""\s*(?:[\]}]|,\s*["\[{])""")


def _is_part(json_object: TextObject) -> bool:
    """Return whether an object is one of an array, or of a larger object that is broken."""
    start, end = json_object.at
    return bool(
        _GOES_BEFORE.search(json_object.source[max(0, start - 100) : start])
        or _COMES_AFTER.match(json_object.source, end)
    )


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


@lru_cache
def expression() -> Comparison:
    """Check that the last expressions, boxed ones first, are equal by math-verify.

    A reference without `$` is LaTeX. Cannot say: one of them is no expression.
    """
    from math_verify import parse, verify  # imported late: sympy takes seconds

    for name in ("math_verify", "latex2sympy2_extended"):
        # They log texts, and warn that they have no time limit; the worker has one.
        logging.getLogger(name).setLevel(logging.CRITICAL)

    def compare(text: str, expected: str) -> RuleFinding:
        gold = []
        if not _IN_MATHS.search(expected):
            gold = parse(f"${expected}$", parsing_timeout=None)
        gold = gold or parse(expected.rpartition("####")[2], parsing_timeout=None)
        if not gold:
            return cannot_say(
                "the expected value is no expression", expected=expected, is_unusable=True
            )
        parsed = parse(text, parsing_timeout=None)
        if not parsed:
            return cannot_say("the text has no expression", expected=str(gold[-1]))
        holds = verify(gold, parsed, timeout_seconds=None, raise_on_error=True)
        return RuleFinding.from_outcome(holds=holds, actual=str(parsed[-1]), expected=str(gold[-1]))

    return compare


@lru_cache
def regex() -> Comparison:
    """Check that a regular expression of Python's `re` matches somewhere in the answer.

    Cannot say: the expression is invalid.
    """

    def compare(text: str, expected: str) -> RuleFinding:
        if not expected.strip():
            return cannot_say("the expected value is blank", expected=expected, is_unusable=True)
        try:
            pattern = re.compile(expected)
        except (re.error, OverflowError) as error:
            return cannot_say(
                f"no regular expression: {error}", expected=expected, is_unusable=True
            )
        match = pattern.search(text)
        return RuleFinding.from_outcome(
            holds=match is not None, actual=None if match is None else match[0], expected=expected
        )

    return compare


@lru_cache
def json_schema() -> Comparison:
    """Validate a JSON value: the answer, its last code block or its last object. 0 without JSON.

    No URL is fetched. Cannot say: the expected value is no schema.
    """
    from jsonschema.exceptions import SchemaError, best_match
    from jsonschema.validators import validator_for
    from referencing import Registry

    @lru_cache
    def validator(schema: str) -> Any:
        parsed = json.loads(schema)
        kind = validator_for(parsed)
        kind.check_schema(parsed)
        return kind(parsed, registry=Registry())  # an empty registry fetches no schema

    def compare(text: str, expected: str) -> RuleFinding:
        try:
            checks = validator(expected)
        except (ValueError, SchemaError) as error:
            message = getattr(error, "message", str(error))
            return cannot_say(f"no JSON schema: {message}", expected=expected, is_unusable=True)
        objects = (
            json_object.written
            for json_object in find_objects(text, max(1, len(text)))[:1]
            if not _is_part(json_object)
        )
        for source in (text, *_FENCED.findall(text)[-1:], *objects):
            try:
                value = json.loads(source, parse_constant=_refuse)
            except (ValueError, RecursionError):
                continue
            wrong = best_match(checks.iter_errors(value))
            why = ""
            if wrong is not None:
                why = f"{wrong.json_path}: {wrong.message}"
            return RuleFinding.from_outcome(
                holds=wrong is None, actual=source.strip(), expected="JSON of the schema", why=why
            )
        return RuleFinding.from_outcome(
            holds=False, actual=None, expected="JSON of the schema", why="the text has no JSON"
        )

    return compare
