"""Lines of a run's ledger of calls, written and read; compression of whole ledgers.

A line is the start of a request (`sent`; `again` for a retry, `unsent` if it was not sent after
all), a response (`call`), a failed request (`failed`), the mark of a failed row (`row_failed`), or
of a resumed run (`resumed`); `serve` adds the marks of its groups (`training/group_ledger.py`). A
long text is written at its first use and later replaced by its digest, while it is among the
recently used texts.

`pack` compresses the ledger of a complete run, and `unpack` restores it for a resumed one.

Guarantees: at any moment one of the two files is whole, even if the process is killed; if both
exist, it is the plain one.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import logging
import math
import mmap
import os
import re
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import orjson
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from judgegym.engine.runs.damaged_lines import ReadLine, T, keep_aside, read_lines, report_damage
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.lines import RawLine
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError
from judgegym.llm.ledger import CallKey
from judgegym.llm.types import ChatResponse
from judgegym.llm.urls import redact_credentials, redact_secret_fields
from judgegym.llm.wire import JSON, Image, Message, Role

CALLS, PACKED_CALLS, IMAGES, BATCHES = "calls.jsonl", "calls.jsonl.gz", "images", "batches.jsonl"

_LONG = 200
_TEXTS_KEPT = 4096
_ANSWER = TypeAdapter(ChatResponse)


@dataclass(frozen=True, slots=True, config=ConfigDict(strict=True, arbitrary_types_allowed=True))
class RecordedCall:
    """An answered request of a run; its fields are validated.

    Attributes:
        row: the uid of the row that it was made for.
        group: the number of the row's group in `process` and `serve`; `None` in an evaluation.
        component: which call of the row, such as `policy`, `game_1` or `rollout_2/score`.
        vote: which of several independent answers to one question.
        model: the model's name.
        messages: what the model was asked; `None` if the run did not keep texts, or a damaged line
            held one of them.
        parameters: the other fields of the request, but for the number of completions.
        answer: the answer as it was received, with usage, seconds and attempts.
        has_verdict: whether it had what it was asked for.
        verdict_at: from where to where (in code points) in the text of the answer's first choice
            the judge's parser has read the verdict; `None` if it has not, or not in one place, and
            in ledgers from before this field.
    """

    row: str
    group: int | None
    component: str
    vote: int
    model: str
    messages: tuple[Message, ...] | None
    parameters: dict[str, Any]
    answer: ChatResponse
    has_verdict: bool
    verdict_at: tuple[int, int] | None = None

    @property
    def is_policy_call(self) -> bool:
        """Whether it is a call to the policy rather than to a judge."""
        return self.component.rpartition("/")[2] == "policy"


def locate_image(image: Image) -> str:
    """Return an image's file in the run directory, or its address."""
    if image.is_local:
        return f"{IMAGES}/{image.name}"
    return redact_credentials(image.url)


class Texts:
    """The long texts used last; writer and reader of a ledger know the same ones."""

    def __init__(self, *, keep: bool) -> None:
        """Start without texts; `keep` the texts (to read) or only their digests (to write)."""
        self._keep = keep
        self._texts: OrderedDict[str, str] = OrderedDict()

    def encode_message(self, message: Message) -> dict[str, JSON]:
        """Return a message as it is written."""
        content, written = message["content"], dict[str, JSON](role=message["role"])
        if images := message.get("images"):
            written["images"] = [
                {"mark": image.mark, "url": locate_image(image)} for image in images
            ]
        if len(content) < _LONG:
            return {**written, "content": content}
        name = hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=12).hexdigest()
        written["text"] = name
        if self._is_new(name, content):
            written["content"] = content
        return written

    def read(self, line: Mapping[str, Any]) -> Message | None:
        """Return a message as it was written; `None` if its text is in no line."""
        name = line.get("text")
        if "content" not in line and name not in self._texts:
            return None
        content = line["content"] if "content" in line else self._texts[line["text"]]
        if not isinstance(content, str) or line["role"] not in get_args(Role):
            raise TypeError("a message has a role and a content, which is a text")
        if name is not None:
            self._is_new(name, content)
        message = Message(role=line["role"], content=content)
        if images := line.get("images"):
            message["images"] = [
                Image(str(fields["url"]), mark=str(fields["mark"])) for fields in images
            ]
        return message

    def _is_new(self, name: str, content: str) -> bool:
        """Note the use of a text; return whether it is new."""
        is_new = name not in self._texts
        self._texts[name] = content if self._keep else ""
        self._texts.move_to_end(name)
        if len(self._texts) > _TEXTS_KEPT:
            self._texts.popitem(last=False)
        return is_new


def make_call_line(
    facts: Mapping[str, Any], identity: CallKey, answer: ChatResponse, texts: Texts | None
) -> bytes:
    """Format a response as a line; without `texts` the messages are left out.

    Args:
        facts: the first fields: the request's number, its row and call, and the verdict's span.
        identity: the call's content.
        answer: the response.
        texts: the long texts written so far.
    """
    line: dict[str, Any] = {
        **facts,
        "component": identity.component,
        "vote": identity.vote,
        "model": identity.model,
    }
    if texts is not None:
        line["messages"] = [texts.encode_message(message) for message in identity.messages]
    line |= {"parameters": redact_secret_fields(identity.parameters), "answer": answer}
    try:
        return orjson.dumps({"call": line}, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a lone surrogate in a message
        plain = {**line, "answer": _ANSWER.dump_python(answer, mode="json")}
        return wire.dumps({"call": plain}) + b"\n"


def read_answer(line: Mapping[str, Any]) -> ChatResponse:
    """Read the response in a call's line.

    Raises:
        ValueError: it is not a response.
    """
    answer = line["answer"]
    for choice in answer["choices"]:
        for token in (
            choice["tokens"] or ()
        ):  # JSON has no infinity; only an alternative's logprob may be one
            token["top"] = [
                (text, -math.inf if logprob is None else logprob) for text, logprob in token["top"]
            ]
    return _ANSWER.validate_python(answer)


def read_calls(run_path: Path, rows: Collection[str] | None = None) -> Iterator[RecordedCall]:
    """Yield the calls in a run's ledger, or those of some rows, in the order of the responses.

    There are none without a ledger.

    Raises:
        RunDirectoryError: the ledger cannot be read.
    """
    texts = Texts(keep=True)

    def read(line: RawLine) -> RecordedCall | None:
        fields: Mapping[str, Any] = line.fields()
        if "call" in fields:
            return parse_call(fields["call"], texts, rows)
        return None

    return (call for call in read_ledger(run_path, read) if call is not None)


def read_ledger(run_path: Path, read: ReadLine[T]) -> Iterator[T]:
    """Read a run's ledger, compressed or not; nothing without a ledger.

    Raises:
        RunDirectoryError: it cannot be read.
    """
    plain, packed = run_path / CALLS, run_path / PACKED_CALLS
    if plain.exists() or not packed.exists():
        yield from (value for _, value in read_lines(plain, read))
        return
    lines = _PackedLines(packed)
    try:
        yield from (value for _, value in read_lines(packed, read, source=lines))
    except OSError as error:
        raise RunDirectoryError(f"{packed} cannot be read: {error.strerror}") from error
    if lines.damaged:
        report_damage(packed, lines.damaged, noun=_DAMAGED_PART)


def parse_call(
    line: Mapping[str, Any], texts: Texts, rows: Collection[str] | None
) -> RecordedCall | None:
    """Return the call of a line; `None` for another row, whose texts later lines may name.

    Raises:
        KeyError, TypeError, ValueError: the line is not a recorded call.
    """
    lines: Sequence[Mapping[str, Any]] | None = line.get("messages")
    if not all(isinstance(message, Mapping) for message in lines or ()):
        raise TypeError("messages are objects")
    texts_read = [texts.read(message) for message in lines or ()]
    messages = tuple(message for message in texts_read if message is not None)
    if rows is not None and line["row"] not in rows:
        return None
    answer = read_answer(line)
    if not answer.choices or not math.isfinite(answer.latency_s):
        raise ValueError("an answer has choices and its seconds")
    has_all_texts = lines is not None and len(messages) == len(lines)
    read = {
        "messages": messages if has_all_texts else None,
        "answer": answer,
        "verdict_at": _parse_location(line.get("verdict_at")),
    }
    return RecordedCall(**{**line, **read})


def _parse_location(value: object) -> tuple[int, int] | None:
    """Return a span; raise `TypeError` if it is none."""
    match value:
        case None:
            return None
        case [int(start), int(end)] if 0 <= start <= end:
            return start, end
    raise TypeError(f"verdict_at is {value!r}")


logger = logging.getLogger(__name__)

_COMPRESSION = 3
_GZIP = 31  # zlib's number for that format
_PART = 1 << 20
_MEMBER = re.compile(re.escape(b"\x1f\x8b\x08\0\0\0\0\0\0"))
"""The beginning of a part of a compressed ledger."""


def pack(run_path: Path, *, keep: bool) -> None:
    """Compress the ledger of a complete run; remove it if texts are not kept.

    If there is no room, the ledger stays as it is.
    """
    plain = run_path / CALLS
    try:
        if keep and plain.exists():
            write_atomic(run_path / PACKED_CALLS, lambda: _compress(plain))
        plain.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s is not compressed: %s", plain, error.strerror)


_DAMAGED_PART = "damaged part"


class _PackedLines:
    """The lines in the whole parts of a compressed ledger; lines across a damaged part are skipped.

    Attributes:
        damaged: the number of damaged parts among those read.
    """

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self._path = path
        self.damaged = 0

    def __iter__(self) -> Iterator[RawLine]:
        """Read all lines."""
        self.damaged, numbers, tail, is_cut = 0, itertools.count(1), b"", False
        for part in self._parts():
            if part is None:
                self.damaged, tail, is_cut = self.damaged + 1, b"", True
                continue
            *lines, tail = (tail + part).split(b"\n")
            if is_cut and lines and not lines[0].startswith(b'{"'):
                del lines[0]
            is_cut = is_cut and not lines
            yield from (RawLine(self._path, next(numbers), 0, line + b"\n") for line in lines)
        if tail:
            yield RawLine(self._path, next(numbers), 0, tail)

    def _parts(self) -> Iterator[bytes | None]:
        """Yield the content of each part; `None` for a damaged one.

        Of a truncated last part, the readable beginning comes first.
        """
        with self._path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                yield None
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as packed:
                starts = [member.start() for member in _MEMBER.finditer(packed)]
                for start, end in itertools.pairwise([0, *filter(None, starts), len(packed)]):
                    try:
                        yield gzip.decompress(packed[start:end])
                        continue
                    except (EOFError, OSError, zlib.error) as error:
                        is_cut = isinstance(error, EOFError) and end == len(packed)
                    if is_cut:
                        yield zlib.decompressobj(_GZIP).decompress(packed[start:end])
                    yield None


def unpack(run_path: Path) -> int:
    """Decompress the ledger; return the number of damaged parts.

    If there are any, the compressed file is kept.

    Raises:
        RunDirectoryError: there is no room.
    """
    plain, packed = run_path / CALLS, run_path / PACKED_CALLS
    if not packed.exists():
        return 0
    lines = _PackedLines(packed)
    try:
        if not plain.exists():
            write_atomic(plain, lambda: (line.data for line in lines))
            if lines.damaged:
                loss = "the answers in it will be asked for again if a row needs them"
                report_damage(packed, lines.damaged, keep_aside(packed), loss, noun=_DAMAGED_PART)
        packed.unlink()
    except OSError as error:
        raise RunDirectoryError(f"{packed} cannot be unpacked: {error.strerror}") from error
    return lines.damaged


def join_ledgers(run_paths: Sequence[Path], target: Path) -> None:
    """Join other runs' ledgers into one compressed ledger in `target`; none if they have none.

    The calls of one run follow those of another, as if it had been resumed. A text named by its
    digest was written earlier in the same ledger, so that a reader knows it.

    Raises:
        OSError: a ledger cannot be read, or there is no room.
    """

    def parts() -> Iterator[bytes]:
        for path in run_paths:
            if (path / CALLS).exists():
                yield from _compress(path / CALLS)
            elif (path / PACKED_CALLS).exists():
                yield from _parts(path / PACKED_CALLS)  # a file of gzip may have several parts

    if any((path / CALLS).exists() or (path / PACKED_CALLS).exists() for path in run_paths):
        write_atomic(target / PACKED_CALLS, parts)
    else:
        (target / PACKED_CALLS).unlink(missing_ok=True)
    (target / CALLS).unlink(missing_ok=True)


def _compress(path: Path) -> Iterator[bytes]:
    """Compress each part separately with a checksum, so that damage stays within a part."""
    for part in _parts(path):
        packer = zlib.compressobj(_COMPRESSION, wbits=_GZIP)
        yield packer.compress(part) + packer.flush()


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(_PART):
            yield part
