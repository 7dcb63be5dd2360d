"""What workers tell each other: every item and result comes out as it went in."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judgegym.judges.aspects.prompt import Aspect
from judgegym.judges.core.judgment import CallRun
from judgegym.judges.scorers.items import Item, ResponseScore
from judgegym.llm.usage import Usage
from judgegym.server.cohorts.messages import (
    Frame,
    Kind,
    Member,
    frame_bytes,
    frame_of,
    member_bytes,
    member_of,
    result_bytes,
    result_of,
)

HOSTILE = ("", "\x00", "\ud800", "\udfff\ud800", "\U0001f600", "\u2028\r\n", '"}]', "{'a': 1}", "null", "NaN", "\ufeff")
texts = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=())))
maybe = st.none() | texts
numbers = st.floats(allow_nan=False)
aspects = st.builds(Aspect, name=st.just("safe"), definition=st.text(min_size=1), veto=st.booleans())
OF_ITEM: dict[str, st.SearchStrategy[Any]] = {
    "prompt": texts,
    "responses": st.lists(texts, max_size=2).map(tuple),
    "reference": maybe,
    "rubric": maybe,
    "levels": st.lists(st.tuples(st.integers(), texts), max_size=2).map(tuple),
    "aspects": st.none() | st.lists(aspects, max_size=2).map(tuple),
    "baseline": maybe,
    "context": maybe,
    "places": st.none() | st.lists(st.integers(0), max_size=2).map(tuple),
    "fault": maybe,
    "group": maybe,
    "member": maybe,
    "client": maybe,
}
OF_RESULT: dict[str, st.SearchStrategy[Any]] = {
    "score": st.none() | numbers,
    "status": texts,
    "label": maybe,
    "explanation": texts,
    "components": st.dictionaries(texts, numbers, max_size=3),
    "usage": st.builds(Usage, st.integers(0), st.integers(0), st.none() | numbers, st.integers(0)),
    "judge_calls": st.integers(0),
    "runs": st.dictionaries(texts, st.builds(CallRun, numbers, st.integers(0), st.booleans()), max_size=2),
    "cached": st.booleans(),
    "injection_suspects": st.integers(0),
    "shared": st.booleans(),
    "others": st.lists(st.none() | numbers, max_size=3).map(tuple),
    "is_final": st.booleans(),
}


@given(texts, st.builds(Item, **OF_ITEM), numbers)
def test_member_comes_out_as_it_went_in(mount: str, item: Item, spent_s: float) -> None:
    member = Member(mount, item, spent_s)
    assert repr(member_of(member_bytes(member))) == repr(member)  # items that differ in their ids alone are equal


@given(st.builds(ResponseScore, **OF_RESULT))
def test_result_comes_out_as_it_went_in(result: ResponseScore) -> None:
    found = result_of(result_bytes(result))
    assert (found, found.runs) == (result, result.runs)  # results that differ in their timings alone are equal


@given(st.builds(Frame, st.integers(0, 2**64 - 1), st.sampled_from(Kind), st.binary()))
def test_frame_comes_out_as_it_went_in(frame: Frame) -> None:
    assert frame_of(frame_bytes(frame)) == frame


@pytest.mark.parametrize("data", [b"", b"\x00" * 8, b"\x00" * 9, b"\xff" * 9])
def test_bytes_that_are_no_frame_are_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        frame_of(data)


def test_number_that_is_none_stays_one() -> None:
    """As null, which is all that JSON has for it, it would be a result without a score and with the status ok."""
    result = result_of(result_bytes(ResponseScore(math.nan, "ok", components={"raw": math.inf})))
    assert result.score is not None
    assert math.isnan(result.score)
    assert result.components == {"raw": math.inf}


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"mount": "", "item": {}, "spent_s": 0}', b"\xff"])
def test_bytes_that_are_no_member_are_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        member_of(data)


def test_examples_have_all_fields() -> None:
    assert [field.name for field in fields(Item)] == list(OF_ITEM)
    assert [field.name for field in fields(ResponseScore)] == list(OF_RESULT)
