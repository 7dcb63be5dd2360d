"""A run's ledger of calls (`calls.jsonl`), from which an interrupted run is resumed.

Guarantees: a response is on disk before its caller gets it, so that only requests in flight can be
paid for twice, whatever stops a run; a resumed row gets the same responses in the same order, and
its endpoint is asked only for missing ones; only the responses' offsets in the file are kept in
memory, and none of finished rows.

`RunUsage` is the expense of a run's earlier parts, by its ledger of calls.

Every request counts, answered or not: with the attempts of responses and failures, and with the
sent attempts of requests in flight when the run stopped. Tokens have current prices, so that a
wrong or missing price can be corrected; without a current price the ledger's cost counts.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import IO, Any, TypeAlias, cast

from judgegym.engine.runs.batches import read_batches
from judgegym.engine.runs.damaged_lines import read_objects
from judgegym.engine.runs.directory import FAILURES, RunDirectory
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.runs.lines import RawLine
from judgegym.engine.runs.recorded_calls import (
    CALLS,
    Texts,
    locate_image,
    make_call_line,
    parse_call,
    read_answer,
    unpack,
)
from judgegym.llm import wire
from judgegym.llm.batches.queue import VOID
from judgegym.llm.cost.budget import Expense
from judgegym.llm.errors import EndpointError, RunDirectoryError, RunStop
from judgegym.llm.ledger import CallInProgress, CallKey, VerdictLocation
from judgegym.llm.types import ChatResponse
from judgegym.llm.usage import Prices, Usage
from judgegym.llm.wire import JSON


@dataclass(slots=True)
class RunUsage:
    """Requests and tokens of a run so far.

    Attributes:
        requests: the number of requests sent, including retries.
        usage: the tokens of all paid responses by model, with the recorded cost.
        served: the number of responses of `policy`, `judge` and `user` by the model they name.
        refused: the refused request fields, by the same roles and by model.
    """

    requests: int = 0
    usage: dict[str, Usage] = field(default_factory=dict)
    served: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    refused: dict[str, dict[str, set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )

    def note_answer(self, call: Mapping[str, Any]) -> None:
        """Add a line's response; without a request of its own it cost nothing."""
        if call["id"] is not None:
            answer = call["answer"]
            last = call["component"].rpartition("/")[2]
            role = "judge"
            if last in ("policy", "user"):
                role = last
            if (served := answer.get("served")) is not None:
                self.served[role][served] += 1
            if refused := answer.get("refused"):
                self.refused[role][call["model"]].update(refused)
            self._add(call["model"], answer["attempts"], answer["usage"])

    def note_failure(self, line: Mapping[str, Any]) -> None:
        """Add a line's failed request; older runs did not record its cost."""
        self._add(line.get("model", ""), line.get("attempts", 1), line.get("usage", {}))

    def price_usage(self, prices: Mapping[str, Prices]) -> Expense:
        """Return the expense, for a budget.

        Args:
            prices: the current prices by model.
        """
        cost: float | None = 0.0
        for model, usage in self.usage.items():
            price = prices.get(model, Prices())
            has_price = price.input is not None and price.output is not None
            counted = usage.prompt_tokens + usage.completion_tokens > 0
            part = price.price_usage(usage).cost if has_price and counted else usage.cost
            cost = None if cost is None or part is None else cost + part
        return Expense(self.requests, cost)

    def _add(self, model: str, attempts: int, usage: Mapping[str, Any]) -> None:
        self.requests += attempts
        paid = Usage(**usage)
        if paid != Usage():
            self.usage[model] = self.usage.get(model, Usage()) + paid


def _read_entry(line: RawLine, finished: Container[str]) -> Mapping[str, Any]:
    """Read a line of a ledger; raise an error for a line of another file.

    Responses to finished rows are not needed.
    """
    fields: Mapping[str, Any] = line.fields()
    match fields:
        case {
            "call": {
                "id": int() | None,
                "row": str(),
                "group": int() | None,
                "key": str(),
                "part": int(),
            } as call
        }:
            if call["row"] not in finished:
                parse_call({**call, "messages": None}, Texts(keep=False), None)
        case (
            {"failed": int()}
            | {"row_failed": str(), "group": int() | None}
            | {
                "begun": {
                    "number": int(),
                    "row": str(),
                    "step": int(),
                    "epoch": int(),
                    "position": int(),
                }
            }
            | {"state": {"step": int() | None, "last_group": int(), "place": [int(), int()] | None}}
            | {"sent": int()}
            | {"again": int()}
            | {"unsent": int()}
            | {"resumed": int()}
            | {"done": int()}
        ):
            pass
        case _:
            raise ValueError("not of a ledger of calls")
    return fields


RowKey: TypeAlias = "tuple[str, int | None]"
AnswerLocation: TypeAlias = "tuple[int, bool]"
"""The offset of a response's line, and whether the response has a verdict."""


class CallLedger:
    """The ledger of a run in progress.

    Attributes:
        is_resumed: whether there is a ledger of an earlier run.
        lost: the number of requests in flight when that run stopped; their responses never arrived.
        earlier: the usage of the earlier run.
        in_batches: the requests without a response in a batch of the earlier run.
    """

    def __init__(self, run: RunDirectory, *, finished: Container[str], keep_texts: bool) -> None:
        """Open the ledger of a run, and index the responses of an earlier one.

        Args:
            run: the run directory.
            finished: the uids of rows that are not run again.
            keep_texts: whether to record the messages, too.

        Raises:
            RunDirectoryError: it cannot be read.
        """
        self._run = run
        self.disk = run.disk
        self._path = run.path / CALLS
        self.lines = run.writer(CALLS)
        self.texts = Texts(keep=False) if keep_texts else None
        self._places: dict[RowKey, dict[str, list[AnswerLocation]]] = defaultdict(dict)
        self.in_flight: dict[int, RowKey | None] = {}
        """Requests without a response, with their rows (`None` for an earlier run)."""
        self._repeated = Counter[int]()
        """Retries of an earlier run's requests in flight; −1 if a request was never sent."""
        self.last_number = 0
        self.lost = 0
        self.earlier = RunUsage()
        batches = [batch for batch in read_batches(run)[1].values() if batch.state.status != VOID]
        self._batched = set[int]()
        for batch in batches:
            self._batched.update(number for number, _ in batch.requests if number is not None)
        self.in_batches = set[int]()
        run.damage[CALLS] += unpack(run.path)
        self.is_resumed = self._path.exists()
        if self.is_resumed:
            self._index(finished)
            self.append({"resumed": self.lost})
        self._reader: IO[bytes] | None = None

    def _index(self, finished: Container[str]) -> None:
        self.in_flight.update(
            dict.fromkeys(self._batched)
        )  # the line that one was sent may be damaged
        self.last_number = max(self._batched, default=0)

        def note(line: RawLine) -> None:
            self._note(_read_entry(line, finished), line.offset, finished)

        for _ in self._run.lines(CALLS, note):
            pass
        if self._run.damage[CALLS]:  # the mark of a row that failed may be among what is lost
            for _, failure in read_objects(self._run.path / FAILURES):
                uid = str(failure.get("uid"))
                for row in {uid, uid.partition("/")[0]}:
                    self._note({"row_failed": row, "group": None}, 0, finished)
                    self.append({"row_failed": row, "group": None})
        self.in_batches = self._batched & self.in_flight.keys()
        self.lost = len(self.in_flight) - len(self.in_batches)
        self._forget_in_flight()

    def _note(self, line: Mapping[str, Any], place: int, finished: Container[str]) -> None:
        """Note one line of the earlier run."""
        if "sent" in line:
            self.last_number = max(self.last_number, line["sent"])
            self.in_flight[line["sent"]] = None
        elif "again" in line:
            self._repeated[line["again"]] += 1
        elif "unsent" in line:
            self._repeated[line["unsent"]] -= 1
        elif "failed" in line:
            self._note_end(line["failed"])
            self.earlier.note_failure(line)
        elif "resumed" in line:
            self._forget_in_flight()
        elif "row_failed" in line:
            answers = self._places.get((line["row_failed"], line["group"]), {})
            for key, locations in list(answers.items()):
                answers[key] = [place for place in locations if place[1]]
        else:
            call = line["call"]
            self._note_end(call["id"])
            self.earlier.note_answer(call)
            if call["row"] not in finished:
                places = self._places[call["row"], call["group"]]
                places.setdefault(call["key"], []).append((place, call["has_verdict"]))

    def _forget_in_flight(self) -> None:
        """Give up requests without a response, which still count; those in batches may get one."""
        lost = [number for number in self.in_flight if number not in self._batched]
        self.earlier.requests += len(lost)
        for number in lost:
            del self.in_flight[number]
        for number in [number for number in self._repeated if number not in self._batched]:
            self.earlier.requests += self._repeated.pop(number)

    def _note_end(self, number: int | None) -> None:
        """Note that a request of the earlier run has ended; its line has the number of attempts."""
        if number is not None:
            self.last_number = max(self.last_number, number)
            self.in_flight.pop(number, None)
            self._repeated.pop(number, None)

    @property
    def loss(self) -> str:
        """How many requests the earlier run has lost, as text."""
        if not self.is_resumed:
            return f"it has no {CALLS}, so all calls of its unfinished rows are sent again"
        return f"requests in flight when it stopped, which are sent again: at most {self.lost}"

    def row(self, uid: str, group: int | None = None) -> DiskRowLedger:
        """Return the calls of a row; `group` distinguishes groups of a row that runs repeatedly."""
        return DiskRowLedger(self, (uid, group), self._places.pop((uid, group), {}))

    def append(self, line: Mapping[str, JSON]) -> int:
        """Append a line; return its offset in the file."""
        return self.lines.append(wire.dumps(line) + b"\n")

    def answer(self, row: RowKey, number: int | None, line: bytes) -> int:
        """Append the line of a response to a row's call; return its offset in the file."""
        if number is not None:
            self.in_flight.pop(number, None)
        return self.lines.append(line)

    def keep_images(self, identity: CallKey) -> None:
        """Write the local images of a call to files of their own, each once."""
        if self.texts is None:
            return
        images = chain.from_iterable(message.get("images", ()) for message in identity.messages)
        for image in images:
            if not image.is_local:
                continue
            path = self._run.path / locate_image(image)
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                write_atomic(path, image.data)

    def read(self, place: int) -> tuple[int, ChatResponse]:
        """Read the response at an offset of the file, and the number of its part.

        Raises:
            RunDirectoryError: it cannot be read.
        """
        if self._reader is None:
            self._reader = self._path.open("rb")
        self._reader.seek(place)
        try:
            call = cast("Mapping[str, Any]", wire.loads(self._reader.readline()))["call"]
            return call["part"], read_answer(call)
        except (KeyError, TypeError, ValueError) as error:
            raise RunDirectoryError(
                f"{self._path}, at byte {place}: not a recorded call: {error}"
            ) from error

    def close(self) -> None:
        """Close the file that responses are read from."""
        if self._reader is not None:
            self._reader.close()


class CallKeys(Counter[str]):
    """The keys of a row's calls; identical calls are distinguished by their order."""

    def begin_key(self, identity: CallKey) -> str:
        """Return the key of a new call."""
        request = digest_request(identity)
        self[request] += 1
        return f"{request}.{self[request]}"

    def peek_key(self, identity: CallKey) -> str:
        """Return the key that this call would have if it began now."""
        request = digest_request(identity)
        return f"{request}.{self[request] + 1}"


@dataclass(slots=True)
class DiskRowLedger:
    """The calls of one row; implements `judgegym.llm.ledger.RowLedger`."""

    ledger: CallLedger
    key: RowKey
    places: Mapping[str, list[AnswerLocation]]
    _keys: CallKeys = field(default_factory=CallKeys)

    @property
    def name(self) -> str:
        """See `RowLedger`."""
        return f"{self.key[0]}\0{self.key[1]}"

    def open(self, identity: CallKey) -> tuple[str, dict[int, ChatResponse]]:
        """See `RowLedger`."""
        key = self._keys.begin_key(identity)
        return key, dict(self.ledger.read(place) for place, _ in self.places.get(key, ()))

    def holds(self, identity: CallKey) -> bool:
        """See `RowLedger`."""
        return bool(self.places and self.places.get(self._keys.peek_key(identity)))

    def recorded_answers(self) -> dict[str, dict[int, ChatResponse]]:
        """Return all recorded responses of the row by call key, for another process."""
        return {
            key: dict(self.ledger.read(place) for place, _ in places)
            for key, places in self.places.items()
        }

    async def ready(self) -> float:
        """See `RowLedger`; raises `DiskFull` if the disk refused for too long."""
        began = time.monotonic()
        await self.ledger.disk.ready()
        return time.monotonic() - began

    def sent(self, number: int | None = None) -> int:
        """See `RowLedger`."""
        ledger = self.ledger
        if number is not None:
            ledger.lines.append(b'{"again":%d}\n' % number)
            return number
        ledger.last_number += 1
        ledger.in_flight[ledger.last_number] = self.key
        ledger.lines.append(b'{"sent":%d}\n' % ledger.last_number)
        return ledger.last_number

    def not_sent(self, number: int) -> None:
        """See `RowLedger`."""
        self.ledger.lines.append(b'{"unsent":%d}\n' % number)

    def answered(
        self,
        call: CallInProgress,
        part: int,
        number: int | None,
        answer: ChatResponse,
        verdict: VerdictLocation,
    ) -> None:
        """See `RowLedger`."""
        facts: dict[str, Any] = {
            "id": number,
            "row": self.key[0],
            "group": self.key[1],
            "key": call.key,
            "part": part,
        }
        facts |= {"has_verdict": verdict.is_there, "verdict_at": verdict.at}
        self.ledger.keep_images(call.identity)
        self.ledger.answer(
            self.key, number, make_call_line(facts, call.identity, answer, self.ledger.texts)
        )

    def failed(self, call: CallInProgress, number: int, error: EndpointError | RunStop) -> None:
        """See `RowLedger`."""
        self.ledger.in_flight.pop(number, None)
        row: dict[str, JSON] = {
            "failed": number,
            "row": self.key[0],
            "group": self.key[1],
            "key": call.key,
        }
        details: dict[str, JSON] = {
            "component": call.identity.component,
            "error": str(error),
            "model": call.identity.model,
        }
        self.ledger.append(
            {**row, **details, "attempts": error.attempts, "usage": asdict(error.usage)}
        )

    def mark_failed(self) -> None:
        """Note that the row has failed: a resumed run repeats its calls without a verdict."""
        self.ledger.append({"row_failed": self.key[0], "group": self.key[1]})


def digest_request(identity: CallKey) -> str:
    """Return a digest of a call's content."""
    shape: JSON = [
        identity.component,
        identity.vote,
        identity.model,
        wire.messages_json(identity.messages, by_name=True),
        dict(sorted(identity.parameters.items())),
    ]
    return hashlib.blake2b(wire.dumps(shape), digest_size=16).hexdigest()
