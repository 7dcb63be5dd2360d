"""The lines of a run's ledger of calls: how a call is written, and how it is read back.

A line is the beginning of a request (`sent`; `again` for a retry, `unsent` for one that did not leave), an answer
(`call`), a request that failed (`failed`), the mark that a row has failed (`row_failed`), or that a run was resumed
(`resumed`); `serve` adds the marks of its groups (`training/group_ledger.py`). A long text is written at its first use
and named by its digest after that, as long as it is among the texts that were used last.

Compress the ledger of a run that is complete, and unpack it for one that goes on.

Guarantees: at any moment one of the two files is whole, also if the process is killed; where both are there, it is the
plain one.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import math
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.lines import RawLine, damage, whole_lines
from judgegym.llm import wire
from judgegym.llm.ledger import CallKey
from judgegym.llm.types import ChatResponse
from judgegym.llm.urls import without_credentials, without_secret_fields
from judgegym.llm.wire import JSON, Image, Message, Role

CALLS, PACKED_CALLS, IMAGES = "calls.jsonl", "calls.jsonl.gz", "images"

_LONG = 200
_TEXTS_KEPT = 4096
_ANSWER = TypeAdapter(ChatResponse)


@dataclass(frozen=True, slots=True, config=ConfigDict(strict=True, arbitrary_types_allowed=True))
class RecordedCall:
    """An answered request of a run; its fields are checked.

    Attributes:
        row: the uid of the row that it was made for.
        group: the number of the row's group in `process` and `serve`; `None` in an evaluation.
        component: which call of the row, such as `policy`, `game_1` or `rollout_2/score`.
        vote: which of several independent answers to one question.
        model: the model's name.
        messages: what the model was asked; `None` if the run did not keep texts.
        parameters: the other fields of the request, but for the number of completions.
        answer: the answer as it was received, with usage, seconds and attempts.
        has_verdict: whether it had what it was asked for.
        verdict_at: from where to where (in code points) in the text of the answer's first choice the judge's parser
            has read the verdict; `None` if it has not, or not in one place, and in ledgers from before this field.
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
    def is_of_policy(self) -> bool:
        """Whether it is a call to the policy, and not to a judge."""
        return self.component.rpartition("/")[2] == "policy"


def file_of(image: Image) -> str:
    """The file of an image in the run directory, or its address."""
    return f"{IMAGES}/{image.name}" if image.is_local else without_credentials(image.url)


class Texts:
    """The long texts that were used last. Writer and reader of a ledger see the same uses, so they know the same."""

    def __init__(self, *, keep: bool) -> None:
        """Know no text; `keep` the texts themselves (to read) or only their digests (to write)."""
        self._keep = keep
        self._texts: OrderedDict[str, str] = OrderedDict()

    def written(self, message: Message) -> dict[str, JSON]:
        """A message as it is written."""
        content, written = message["content"], dict[str, JSON](role=message["role"])
        if images := message.get("images"):
            written["images"] = [{"mark": each.mark, "url": file_of(each)} for each in images]
        if len(content) < _LONG:
            return {**written, "content": content}
        name = hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=12).hexdigest()
        written["text"] = name
        if self._is_new(name, content):
            written["content"] = content
        return written

    def read(self, line: Mapping[str, Any]) -> Message:
        """A message that was written; raises `KeyError` for a text that was never written."""
        name = line.get("text")
        content = line["content"] if "content" in line else self._texts[line["text"]]
        if not isinstance(content, str) or line["role"] not in get_args(Role):
            raise TypeError("a message has a role and a content, which is a text")
        if name is not None:
            self._is_new(name, content)
        message = Message(role=line["role"], content=content)
        if images := line.get("images"):
            message["images"] = [Image(str(each["url"]), mark=str(each["mark"])) for each in images]
        return message

    def _is_new(self, name: str, content: str) -> bool:
        """Note the use of a text; return whether it was not known."""
        is_new = name not in self._texts
        self._texts[name] = content if self._keep else ""
        self._texts.move_to_end(name)
        if len(self._texts) > _TEXTS_KEPT:
            self._texts.popitem(last=False)
        return is_new


def call_line(facts: Mapping[str, Any], asked: CallKey, answer: ChatResponse, texts: Texts | None) -> bytes:
    """An answer as a line; without `texts` the messages are left out.

    Args:
        facts: the first fields: the request's number, which call of which row it answers, where its verdict stands.
        asked: the call.
        answer: what was answered.
        texts: the long texts that were written before.
    """
    line: dict[str, Any] = {**facts, "component": asked.component, "vote": asked.vote, "model": asked.model}
    if texts is not None:
        line["messages"] = [texts.written(message) for message in asked.messages]
    line |= {"parameters": without_secret_fields(asked.parameters), "answer": answer}
    try:
        return orjson.dumps({"call": line}, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a lone surrogate in a message
        plain = {**line, "answer": _ANSWER.dump_python(answer, mode="json")}
        return wire.dumps({"call": plain}) + b"\n"


def read_answer(line: Mapping[str, Any]) -> ChatResponse:
    """The answer of a call's line.

    Raises:
        ValueError: it is none.
    """
    answer = line["answer"]
    for choice in answer["choices"]:
        for token in choice["tokens"] or ():  # JSON has no infinity; only an alternative's logprob may be one
            token["top"] = [(text, -math.inf if logprob is None else logprob) for text, logprob in token["top"]]
    return _ANSWER.validate_python(answer)


def read_calls(run_path: Path, rows: Collection[str] | None = None) -> Iterator[RecordedCall]:
    """All calls in the ledger of a run, or those of some rows, in the order of their answers; none without a ledger.

    Raises:
        RunDirectoryError: a line is damaged.
    """
    texts = Texts(keep=True)
    for line in ledger_lines(run_path):
        call = line.fields().get("call")
        if call is None:
            continue
        if not isinstance(call, Mapping):
            raise line.damage("not a recorded call: expected an object")
        try:
            recorded = recorded_call(call, texts, rows)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise line.damage(f"not a recorded call: {wrong}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise line.damage(f"not a recorded call: {error!r}") from error
        if recorded is not None:
            yield recorded


def ledger_lines(run_path: Path) -> Iterator[RawLine]:
    """All lines of the ledger of a run, whether or not it is compressed; none without a ledger.

    Raises:
        RunDirectoryError: it cannot be read.
    """
    plain, packed = run_path / CALLS, run_path / PACKED_CALLS
    if plain.exists():
        yield from whole_lines(plain)
    elif packed.exists():
        yield from _unpacked_lines(packed)


def _unpacked_lines(path: Path) -> Iterator[RawLine]:
    try:
        with gzip.open(path) as file:
            for number, data in enumerate(file, start=1):
                yield RawLine(path, number, 0, data)
    except (OSError, EOFError, zlib.error) as error:
        raise damage(path, f" cannot be read: {error}") from error


def recorded_call(line: Mapping[str, Any], texts: Texts, rows: Collection[str] | None) -> RecordedCall | None:
    """The call of a line; `None` if it is of another row, whose texts later lines may name.

    Raises:
        KeyError, TypeError, ValueError: the line is no recorded call.
    """
    lines: Sequence[Mapping[str, Any]] | None = line.get("messages")
    if not all(isinstance(message, Mapping) for message in lines or ()):
        raise TypeError("messages are objects")
    messages = None if lines is None else tuple(texts.read(message) for message in lines)
    if rows is not None and line["row"] not in rows:
        return None
    answer = read_answer(line)
    if not answer.choices or not math.isfinite(answer.latency_s):
        raise ValueError("an answer has choices and its seconds")
    read = {"messages": messages, "answer": answer, "verdict_at": _place(line.get("verdict_at"))}
    return RecordedCall(**{**line, **read})


def _place(value: object) -> tuple[int, int] | None:
    """Raises `TypeError` for what is no place."""
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


def pack(run_path: Path, *, keep: bool) -> None:
    """Compress the ledger of a run that is complete; remove it if texts are not kept.

    Without room for that, the ledger stays as it is.
    """
    plain = run_path / CALLS
    try:
        if keep and plain.exists():
            write_atomic(run_path / PACKED_CALLS, lambda: _compressed(plain))
        plain.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s is not compressed: %s", plain, error.strerror)


def unpack(run_path: Path) -> None:
    """Make the ledger a plain file again.

    Raises:
        RunDirectoryError: the compressed file is damaged, or there is no room.
    """
    plain, packed = run_path / CALLS, run_path / PACKED_CALLS
    if not packed.exists():
        return
    if not plain.exists():
        try:
            write_atomic(plain, lambda: _parts(packed, unpack=True))
        except (EOFError, OSError, zlib.error) as error:
            raise damage(packed, f" cannot be unpacked: {error}") from error
    packed.unlink()


def join(run_paths: Sequence[Path], target: Path) -> None:
    """Make one compressed ledger, in the run directory `target`, of those of other runs; none if they have none.

    The calls of one run follow those of another, as if it had been resumed. A text that a call names by its digest was
    written before it in the same ledger, and is among the texts that a reader knows then.

    Raises:
        OSError: a ledger cannot be read, or there is no room.
    """

    def parts() -> Iterator[bytes]:
        for path in run_paths:
            if (path / CALLS).exists():
                yield from _compressed(path / CALLS)
            elif (path / PACKED_CALLS).exists():
                yield from _parts(path / PACKED_CALLS)  # a file of gzip may have several parts

    if any((path / name).exists() for path in run_paths for name in (CALLS, PACKED_CALLS)):
        write_atomic(target / PACKED_CALLS, parts)
    else:
        (target / PACKED_CALLS).unlink(missing_ok=True)
    (target / CALLS).unlink(missing_ok=True)


def _compressed(path: Path) -> Iterator[bytes]:
    """Compress each part by itself, with a checksum of its own: a part that is damaged spoils no other one."""
    for part in _parts(path):
        packer = zlib.compressobj(_COMPRESSION, wbits=_GZIP)
        yield packer.compress(part) + packer.flush()


def _parts(path: Path, *, unpack: bool = False) -> Iterator[bytes]:
    with gzip.open(path) if unpack else path.open("rb") as file:
        while part := file.read(_PART):
            yield part
