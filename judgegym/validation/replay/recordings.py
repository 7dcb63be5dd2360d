"""A client that gives a judge the answers that recorded runs were given, and sends nothing.

An answer is found by its row and by what its call asks: the component within its judge, vote, model, messages and
parameters, in the order among calls that ask the same. It has the usage, attempts and cost that were recorded, so the
ledger, counts and cost of a replayed run are those of a live one.

Guarantees: a recorded failure fails again with its text; a call that is not recorded is one error that names the row
and the call. Of a run that was resumed, the answers of its last part count.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from judgegym.engine.runs.ledger import LedgerOfRow, digest_of
from judgegym.engine.runs.recorded_calls import ledger_lines, read_answer
from judgegym.judges.config.judge import NO_ENDPOINT, STAND_IN_IDENTITY
from judgegym.llm import wire
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import DataError, EndpointError, FailureKind
from judgegym.llm.ledger import CallKey, RequestRecord, call_key, current_row
from judgegym.llm.response_format import RESPONSE_FORMAT
from judgegym.llm.types import ChatResponse, ChatSettings, Endpoint
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON, Message

ROW: ContextVar[str] = ContextVar("row", default="")
"""The row whose calls are made, where no run records them."""
_FAILURE = re.compile(r"(.*?): (\w+)(?: HTTP (\d+))? after (\d+) requests?; last answer: (.*)", re.DOTALL)
"""The text of an `EndpointError`."""


class _Place(NamedTuple):
    """Where an answer is in the file of answers, and whether it has a verdict."""

    start: int
    length: int
    has_verdict: bool


class RecordedAnswers:
    """The answers and failures of a finished run. Memory holds their places; the answers are in a file.

    Attributes:
        run: its directory.
        takes_formats: an answer in a response format is among them.
    """

    def __init__(self, run: Path) -> None:
        """Read the ledger of a run.

        Raises:
            DataError: the run has none.
            RunDirectoryError: a line is damaged.
        """
        self.run = run
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the answers are read
        self._answers: dict[str, dict[str, _Place]] = defaultdict(dict)
        self._failures: dict[str, list[tuple[str, EndpointError]]] = defaultdict(list)  # by key, or by component
        self._times = Counter[tuple[str, str]]()
        self._failed = dict[tuple[str, str], EndpointError]()
        self._failed_rows: set[str] = set()
        self._has_lines = False
        self.takes_formats = False
        for line in ledger_lines(run):
            try:
                self._note(line.fields())
            except (KeyError, TypeError, ValueError) as error:
                raise line.damage(f"not of a ledger of calls: {error!r}") from error
        if not self._has_lines:
            raise DataError(f"{run}: it has no ledger of calls to replay; expected a run with --keep_calls")

    def _note(self, line: Mapping[str, Any]) -> None:
        self._has_lines = True
        if "call" in line:
            call = line["call"]
            data = wire.dumps(call["answer"])
            place = _Place(self._file.seek(0, 2), self._file.write(data), call["has_verdict"])
            self._answers[call["row"]][call["key"]] = place
            self.takes_formats |= RESPONSE_FORMAT in call["parameters"]
        elif "failed" in line and (found := _FAILURE.fullmatch(line["error"])) is not None:
            endpoint, kind, status, attempts, answer = found.groups()
            error = EndpointError(
                FailureKind(kind),
                endpoint=endpoint,
                answer=answer,
                status=None if status is None else int(status),
                attempts=int(attempts),
            )
            error.usage = Usage(**line["usage"])
            self._failures[line["row"]].append((line.get("key", line["component"]), error))
        elif "row_failed" in line:
            self._failed_rows.add(line["row_failed"])
        elif "resumed" in line:
            for row in self._failed_rows:
                self._failures.pop(row, None)
                self._answers[row] = {key: place for key, place in self._answers[row].items() if place.has_verdict}
            self._failed_rows.clear()

    def holds(self, row: str, asked: CallKey) -> bool:
        """Return whether the answer or the failure of this call, if it were made now, is recorded."""
        digest = digest_of(asked)
        key = f"{digest}.{self._times[row, digest] + 1}"
        failed = (name for name, _ in self._failures.get(row, ()))
        return key in self._answers.get(row, ()) or any(name in (key, asked.component) for name in failed)

    def take(self, row: str, asked: CallKey) -> ChatResponse | EndpointError | None:
        """Return the answer or the failure of a call that is made now; `None` if none is recorded.

        A call that was made once and is made again gets the same answer at no cost (equal responses of a row shared
        it), or fails again.
        """
        digest, answers = digest_of(asked), self._answers.get(row, {})
        self._times[row, digest] += 1
        key = f"{digest}.{self._times[row, digest]}"
        if key in answers:
            return self._read(answers[key])
        failures = self._failures.get(row, [])
        for number, (name, error) in enumerate(failures):
            if name in (key, asked.component):  # ledgers of older versions name the component alone
                self._failed[row, digest] = error
                del failures[number]
                return error
        if (row, digest) in self._failed:
            return self._failed[row, digest]
        first = answers.get(f"{digest}.1")
        if first is None:
            return None
        return replace(self._read(first), cached=True, attempts=0, usage=Usage())

    def _read(self, place: _Place) -> ChatResponse:
        self._file.seek(place.start)
        answer: Any = wire.loads(self._file.read(place.length))
        return read_answer({"answer": answer})


def _current_uid() -> str:
    """The row whose calls are made."""
    row = current_row()
    return row.key[0] if isinstance(row, LedgerOfRow) else ROW.get()


class ReplayClient(ChatClient):
    """Answers the calls of judges from recorded runs, by the first part of their components, the name of the judge."""

    def __init__(self, recorded: Mapping[str, RecordedAnswers], settings: ChatSettings) -> None:
        """Answer from these runs; the settings name the model."""
        super().__init__(settings)
        self.recorded = recorded

    @classmethod
    def of_runs(cls, recorded: Mapping[str, RecordedAnswers], *, stand_in: str | None) -> ReplayClient:
        """Answer from these runs; `stand_in` is the model of runs with `--offline`."""
        endpoint = Endpoint(NO_ENDPOINT, stand_in or "")
        return cls(recorded, ChatSettings((endpoint,), identity=STAND_IN_IDENTITY if stand_in else ""))

    def sibling(self, settings: ChatSettings) -> ChatClient:
        """Answer for another judge, with the same meter."""
        other = ReplayClient(self.recorded, settings)
        other.meter = self.meter
        self.siblings.append(other)
        return other

    def holds(self, messages: Sequence[Message], *, vote: int = 0, name: str = "", **how: Any) -> bool:
        """Whether the call is recorded: what was asked in words, after a refused format, is asked in words again."""
        parameters = self._parameters("default", "default", how.get("extra"), how.get("seed"))
        recorded, asked = self._recorded(call_key(name, vote, self._model, messages, parameters))
        return recorded.holds(_current_uid(), asked)

    def _recorded(self, asked: CallKey) -> tuple[RecordedAnswers, CallKey]:
        """The run that answers a call, and the call as that run made it."""
        member, _, component = asked.component.partition("/")
        return self.recorded[member], replace(asked, component=component)

    async def _one(self, send: object, asked: CallKey, *how: Any) -> ChatResponse:
        """Take the recorded answer.

        Raises:
            EndpointError: the call has failed.
            DataError: it is not recorded.
        """
        record: RequestRecord = how[-1]
        row = _current_uid()
        recorded, own = self._recorded(asked)
        found = recorded.take(row, own)
        if found is None:
            raise DataError(
                f"{recorded.run}: the call {own.component} of {row} to {own.model} is not recorded; expected the data "
                "and the settings with which the run was made"
            )
        for _ in range(found.attempts):
            record.leaves()
        self.meter.usage += found.usage
        if isinstance(found, EndpointError):
            if recorded.takes_formats:  # then a failure is no refusal of the format
                self.formats.taken_by.add(found.endpoint)
            raise found
        self.meter.answered += found.attempts > 0
        return found

    async def request(
        self, messages: Sequence[Message], parameters: Mapping[str, JSON], record: RequestRecord
    ) -> ChatResponse:
        """Send nothing.

        Raises:
            DataError: always.
        """
        raise DataError("a call for several completions is not replayed; expected a judge that asks for one")
