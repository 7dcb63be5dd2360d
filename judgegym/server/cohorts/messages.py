"""What one process tells another about a cohort, as bytes: a response on its way to its cohort, and its result.

Guarantee: every item and result comes out as it went in, lone surrogates and numbers that are not finite included.
Therefore this is the standard library's JSON, which writes both and reads them back.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import NamedTuple, TypeVar

from pydantic import TypeAdapter

from judgegym.judges.scorers.items import Item, ResponseScore

MessageT = TypeVar("MessageT")

_HEAD = struct.Struct(">QB")


class Kind(IntEnum):
    """What a frame says: a member comes, or leaves; its result, or that there is no room, or that there was a fault."""

    MEMBER = 1
    LEAVES = 2
    RESULT = 3
    OVERLOADED = 4
    FAULT = 5


class Frame(NamedTuple):
    """A message of a connection.

    Attributes:
        number: of the member on this connection; its answer has the same.
        kind: what it says.
        body: the member, or its result.
    """

    number: int
    kind: Kind
    body: bytes = b""


def frame_bytes(frame: Frame) -> bytes:
    """A frame as it is sent."""
    return _HEAD.pack(frame.number, frame.kind) + frame.body


def frame_of(data: bytes) -> Frame:
    """A frame as it was sent.

    Raises:
        ValueError: the bytes are none.
    """
    if len(data) < _HEAD.size:
        raise ValueError("a frame is too short")
    number, kind = _HEAD.unpack_from(data)
    return Frame(number, Kind(kind), data[_HEAD.size :])


@dataclass(frozen=True, slots=True)
class Member:
    """A response on its way to the process that keeps its cohort.

    Attributes:
        mount: the judge's name.
        item: the item with the response.
        spent_s: seconds of the caller's deadline that have passed.
    """

    mount: str
    item: Item
    spent_s: float


def member_bytes(member: Member) -> bytes:
    """A member as it is sent."""
    return _bytes(_members(), member)


def member_of(data: bytes) -> Member:
    """A member as it was sent.

    Raises:
        ValueError: the bytes are none.
    """
    return _read(_members(), data)


def result_bytes(result: ResponseScore) -> bytes:
    """A result as it is sent."""
    return _bytes(_results(), result)


def result_of(data: bytes) -> ResponseScore:
    """A result as it was sent.

    Raises:
        ValueError: the bytes are none.
    """
    return _read(_results(), data)


def _bytes(kind: TypeAdapter[MessageT], message: MessageT) -> bytes:
    return json.dumps(kind.dump_python(message)).encode()


def _read(kind: TypeAdapter[MessageT], data: bytes) -> MessageT:
    return kind.validate_python(json.loads(data))


@cache  # built when it is needed: most servers have one worker
def _members() -> TypeAdapter[Member]:
    return TypeAdapter(Member)


@cache
def _results() -> TypeAdapter[ResponseScore]:
    return TypeAdapter(ResponseScore)
