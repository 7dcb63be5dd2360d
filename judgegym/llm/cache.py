"""The judgment cache: a model's responses in an SQLite file, shared by runs and processes.

The key covers everything that determines a response. Failures are not stored, nor are responses
without a verdict (the judge decides), since asking again may give one. An entry that cannot be read
or used is a miss, and is replaced. The file is in WAL mode.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from judgegym.llm import wire
from judgegym.llm.at_once import bind_context
from judgegym.llm.errors import SettingsError
from judgegym.llm.responses.choices import choice_from_json, choice_to_json
from judgegym.llm.wire import JSON, Choice, Message

logger = logging.getLogger(__name__)

PROTOCOL_VERSION = 1
"""Increase it when requests are built, or responses read, in another way: old entries then miss."""

_BUSY_TIMEOUT_S = 30.0
_LOCK_POLL_S = 0.01
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer BLOB NOT NULL) WITHOUT ROWID"
)


VOTES_PER_REPEAT = 1_000
"""The offset of votes and sampling seeds between two repeats; no question has so many votes."""
_REPEAT: ContextVar[int] = ContextVar("repeat", default=0)
BYPASS_CACHE: ContextVar[bool] = ContextVar("is_asked_anew", default=False)
"""Whether calls bypass the cache: they neither read a response from it nor store theirs."""


@contextmanager
def independent(repeat: int) -> Iterator[None]:
    """Make the calls inside independent of identical calls of other repeats.

    Neither the cache nor a call in flight answers both.

    Args:
        repeat: the number of the independent repeat; 0 changes nothing.
    """
    if not repeat:
        yield
        return
    with bind_context(_REPEAT, repeat):
        yield


def offset_vote(number: int) -> int:
    """Return the vote or the seed with this number, offset by the context's repeat."""
    return number + VOTES_PER_REPEAT * _REPEAT.get()


def request_shape(
    identity: str, messages: Sequence[Message], parameters: Mapping[str, JSON], vote: int
) -> bytes:
    """Return everything that determines a response, as JSON.

    Args:
        identity: the endpoint and the model.
        messages: the conversation.
        parameters: the other fields of the request's body.
        vote: the index of this response among several independent ones to the same request.
    """
    shape: JSON = {
        "protocol": PROTOCOL_VERSION,
        "identity": identity,
        "messages": wire.messages_json(messages, by_name=True),
        "parameters": dict(sorted(parameters.items())),
        "vote": vote,
    }
    return wire.dumps(shape)


def request_key(shape: bytes) -> str:
    """Return the cache key of a request: 64 hexadecimal digits."""
    return hashlib.sha256(shape).hexdigest()


def _use_wal(database: sqlite3.Connection) -> None:
    """Switch to WAL mode; poll while another process creates the file.

    This PRAGMA ignores SQLite's busy timeout.
    """
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            database.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(_LOCK_POLL_S)


@dataclass(frozen=True, slots=True)
class CacheRow:
    """The entry of a key: nothing, a choice, or something that is not a choice.

    Attributes:
        choice: the choice; `None` if there is none, or if it cannot be read.
        stored: the raw entry; `None` if there is none.
    """

    choice: Choice | None = None
    stored: object = None


class JudgmentCache:
    """Stored responses by key.

    All database work runs on one separate thread, so that another process's lock never blocks the
    event loop.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file.

        Raises:
            SettingsError: the file cannot be opened, or is not a cache.
        """
        self.path = path
        self._has_failed = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="judgment-cache")
        try:
            self._database = self._thread.submit(self._open).result()
        except (sqlite3.Error, OSError) as error:
            self._thread.shutdown()
            raise SettingsError(
                f"judge_cache: {path} cannot be used as a judgment cache: {error}"
            ) from error

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        _use_wal(database)
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute(_SCHEMA)
        return database

    async def get(self, key: str) -> CacheRow:
        """Return the entry of a key; if reading fails, log it once and return an empty entry."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._get, key)
        except sqlite3.Error as error:
            self._warn_once(error)
            return CacheRow()

    async def put(self, key: str, choice: Choice, *, previous: CacheRow) -> Choice:
        """Store a choice, unless another process has stored one since.

        The first one stays, so that all processes read the same.

        Args:
            key: the request's key.
            choice: the new response's choice.
            previous: the entry before the call; if it was unusable, it is replaced.

        Returns:
            The choice that all processes read from now on: `choice`, or the one stored first.
        """
        thread, loop = self._thread, asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(thread, self._put, key, choice, previous.stored)
        except (
            sqlite3.Error
        ) as error:  # a full disk must not lose the answer that was just paid for
            self._warn_once(error)
            return choice

    def _warn_once(self, error: sqlite3.Error) -> None:
        if not self._has_failed:
            self._has_failed = True
            logger.warning("the judgment cache %s is not used any more: %s", self.path, error)

    def close(self) -> None:
        """Close the file."""
        self._thread.submit(self._database.close).result()
        self._thread.shutdown()

    def _get(self, key: str) -> CacheRow:
        row = self._database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        if row is None:
            return CacheRow()
        stored: object = row[0]
        try:
            choice = None
            if isinstance(stored, bytes | str):
                choice = choice_from_json(wire.loads(stored))
        except ValueError:
            choice = None
        return CacheRow(choice, stored)

    def _put(self, key: str, choice: Choice, replaced: object) -> Choice:
        """Store a choice; return it, or the one that was stored first."""
        answer = wire.dumps(choice_to_json(choice))
        if replaced is None:
            cursor = self._database.execute(
                "INSERT OR IGNORE INTO answers VALUES (?, ?)", (key, answer)
            )
        else:
            change = "UPDATE answers SET answer = ? WHERE key = ? AND answer = ?"
            cursor = self._database.execute(change, (answer, key, replaced))
        if cursor.rowcount:
            return choice
        return self._get(key).choice or choice
