"""The batches of a run: a queue of requests, sent when the run is quiet, and their responses.

Requests are on disk before they are uploaded: a resumed run continues with the lines of a batch
whose responses it has not recorded. If it is unknown whether a batch was created, it is searched
for before it is created again.

Guarantees: a request is in at most one open batch; a line of the results counts once, in any order;
a request without a response is sent again; a refused request gets the refusal as its response.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from judgegym.llm import wire
from judgegym.llm.at_once import ACTIVITY, Activity, bind_context, blocked, cancel_all, fail
from judgegym.llm.batches.kinds import BatchState, open_batches
from judgegym.llm.errors import EndpointError, EndpointOutage, FailureKind, RunStop
from judgegym.llm.ledger import RequestRecord
from judgegym.llm.responses.outcome import RawResponse
from judgegym.llm.retries.limits import LONG_WAIT_S
from judgegym.llm.types import BatchKind
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from judgegym.llm.transport import Transport

logger = logging.getLogger(__name__)

VOID = "void"
"""The state of a batch that does not exist or was refused: its lines are queued again."""
_TURNS = 20
"""Turns of the event loop in which a row makes its next call after a response."""
_REQUEST_INDEX = re.compile(r"requests[.\[](\d+)|[Ll]ine (\d+)")
"""The request that a message names: an index from 0 (Anthropic), or a line from 1."""
_TOO_LARGE = 413
_CREATED_NOTHING = (429, 529)
"""Statuses after which no batch was created; after any other failure there may be one."""


@dataclass(slots=True)
class Line:
    """A request in the queue, or in a batch.

    Attributes:
        identity: distinguishes it from the run's other requests.
        number: its number in the ledger, if it has one.
        call: the call that waits for it; `None` if only an earlier part of the run has made it.
        body: the request's body as JSON.
        response: its response, or why there is none.
    """

    identity: str
    number: int | None = None
    call: RequestRecord | None = None
    body: bytes = b""
    response: asyncio.Future[RawResponse | str] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def resolve(self, response: RawResponse | str) -> None:
        """Set the response, unless there is one."""
        if not self.response.done():
            self.response.set_result(response)


@dataclass(slots=True)
class Batch:
    """One batch of a run.

    Attributes:
        number: its number, counted from 1.
        name: our name of it.
        sent_at: when it was sent (Unix time).
        kind: the kind of its endpoint.
        endpoint: its base URL, or its folder.
        model: the model's name.
        requests: the ledger number and the identity of each request.
        id: the provider's id; `None` until it is known.
        state: the last state that the provider reported.
        is_earlier: whether an earlier part of the run has sent it.
        lines: its requests in the order of their ids.
        follower: the task that fetches its responses.
    """

    number: int
    name: str
    sent_at: float
    kind: BatchKind
    endpoint: str
    model: str
    requests: Sequence[tuple[int | None, str]]
    id: str | None = None
    state: BatchState = BatchState("")
    is_earlier: bool = False
    lines: Sequence[Line] = ()
    follower: asyncio.Task[None] | None = None

    @property
    def description(self) -> str:
        """The state of the batch in one phrase."""
        total = self.state.total or len(self.requests)
        return (
            f"batch {self.number}: {self.state.done:,} of {total:,} done, "
            f"{self.state.status or 'uploading'}"
        )


class _Queue:
    """The requests of one client that wait for its next batch."""

    def __init__(self, caller: Transport) -> None:
        assert caller.settings.batch is not None  # nobody else asks for a batch
        self.settings, self.endpoint = caller.settings.batch, caller.settings.endpoints[0]
        self.api = open_batches(self.settings, caller)
        self.max_lines, self.lines = self.settings.lines, list[Line]()

    def parts(self) -> Iterator[list[Line]]:
        """Take all lines, split into batches of a size that the provider accepts."""
        waiting, self.lines = [line for line in self.lines if not line.response.done()], []
        part, size = list[Line](), 0
        for line in waiting:
            if part and (len(part) >= self.max_lines or size + len(line.body) > self.api.max_bytes):
                yield part
                part, size = [], 0
            part.append(line)
            size += len(line.body) + 200
        if part:
            yield part


class Batches:
    """The batches of one run; `collect_requests` puts its calls into them."""

    def __init__(
        self,
        run: str,
        record: Callable[[Mapping[str, JSON]], None],
        wait_recorded: Callable[[], Awaitable[None]],
        earlier_batches: Collection[Batch],
        quiet_s: float,
    ) -> None:
        """Prepare the batches of a run.

        Args:
            run: the run's unique name in the names of its batches.
            record: writes a line about a batch.
            wait_recorded: waits until the recorded lines are on disk.
            earlier_batches: the batches of earlier parts of the run; lines with a recorded response
                have no identity.
            quiet_s: send the waiting requests after this many seconds without a change.
        """
        self.activity = Activity()
        self._run, self._record, self._recorded, self._quiet_s = run, record, wait_recorded, quiet_s
        self._last = max((batch.number for batch in earlier_batches), default=0)
        self._claims = {}
        for batch in earlier_batches:
            for line in batch.lines:
                if line.identity:
                    self._claims[line.identity] = (batch, line)
        self._queues: dict[int, _Queue] = {}
        self._open: list[Batch] = []
        self._stop: RunStop | None = None

    @asynccontextmanager
    async def collect_requests(self) -> AsyncIterator[None]:
        """Put the calls made in the block into batches; open batches stay open at its end.

        A resumed run continues them.
        """
        with bind_context(BATCHES, self), bind_context(ACTIVITY, self.activity):
            watch = asyncio.create_task(self._send_when_quiet())
            try:
                yield
            finally:
                await cancel_all(
                    [watch, *(batch.follower for batch in self._open if batch.follower is not None)]
                )

    @property
    def waiting(self) -> str | None:
        """The state of all open batches; `None` if there is none."""
        return "; ".join(batch.description for batch in self._open) or None

    async def ask(
        self, caller: Transport, call: RequestRecord, body: Mapping[str, JSON]
    ) -> RawResponse | str:
        """Send a request in the next batch, unless an earlier part of the run has sent it.

        Returns:
            The response, or why there is none.

        Raises:
            RunStop: no batch can be sent or followed.
        """
        if (queue := self._queues.get(id(caller))) is None:
            queue = self._queues[id(caller)] = _Queue(caller)
        identity = _identity(call)
        batch, line = self._claims.pop(identity, (None, Line(identity, call.number)))
        line.call, line.body, call.number = call, wire.dumps(body), line.number
        if batch is not None and batch.follower is None:
            self._begin(queue, batch)
        if batch is None or (batch.state.status == VOID and not line.response.done()):
            if self._stop is not None:
                raise copy(self._stop)
            if batch is not None:
                call.note_unsent()
            queue.lines.append(line)
            self.activity.note()
            if len(queue.lines) >= queue.max_lines:
                self._flush(queue)
        with blocked():
            return await line.response

    async def _send_when_quiet(self) -> None:
        activity = self.activity
        while True:
            try:
                await asyncio.wait_for(activity.changed.wait(), self._quiet_s)
            except asyncio.TimeoutError:
                self._flush(*self._queues.values())
                continue
            activity.changed.clear()
            seen = -1
            while activity.is_quiet and seen != activity.changes:
                seen = activity.changes
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
            if activity.is_quiet:
                self._flush(*self._queues.values())

    def _flush(self, *queues: _Queue) -> None:
        """Send the waiting requests."""
        for queue in queues:
            for part in queue.parts():
                for line in part:
                    if line.call is not None:
                        line.call.note_sent()
                        line.number = line.call.number
                self._last += 1
                number, at, kind, model = (
                    self._last,
                    time.time(),
                    queue.settings.kind,
                    queue.endpoint.model,
                )
                endpoint = queue.endpoint.redacted_url
                if queue.settings.folder is not None:
                    endpoint = str(queue.settings.folder)
                requests = [(line.number, line.identity) for line in part]
                sent: dict[str, JSON] = {
                    "at": at,
                    "kind": kind,
                    "endpoint": endpoint,
                    "model": model,
                }
                self._record({"batch": number, **sent, "requests": requests})
                name = f"{self._run}-{number}"
                self._begin(
                    queue, Batch(number, name, at, kind, endpoint, model, requests, lines=part)
                )

    def _begin(self, queue: _Queue, batch: Batch) -> None:
        self._open.append(batch)
        batch.follower = asyncio.create_task(self._follow(queue, batch))

    async def _follow(self, queue: _Queue, batch: Batch) -> None:
        """Follow a batch to its end; each of its lines gets a response or an error."""
        ACTIVITY.set(None)  # in this task: looking at a batch is no request of a row
        try:
            await self._recorded()
            if batch.id is None:
                await self._create(queue, batch)
            if batch.id is not None:
                await self._fetch_results(queue, batch, batch.id)
        except EndpointError as error:
            if batch.is_earlier and error.status == 404:
                logger.warning(
                    "batch %d of an earlier part of this run no longer exists: it is sent again",
                    batch.number,
                )
                self._send_back(queue, batch, {})
            else:
                self._fail_lines(batch, EndpointOutage(f"batch {batch.number}: {error}"))
        except Exception as error:  # noqa: BLE001  # such as a full disk: it ends the waiting rows
            self._fail_lines(batch, error)
        finally:
            self._open.remove(batch)
            self.activity.note()

    def _fail_lines(self, batch: Batch, error: Exception) -> None:
        """Fail all lines that wait, in the batch or in a queue, with an error that ends the run."""
        self._stop = error if isinstance(error, RunStop) else self._stop
        waiting = list(batch.lines)
        for queue in self._queues.values():
            waiting += queue.lines
        for line in waiting:
            if not line.response.done():
                fail(line.response, copy(error))

    async def _create(self, queue: _Queue, batch: Batch) -> None:
        """Create a batch that does not exist yet.

        `batch.id` stays `None` if its lines were sent back to the queue.
        """
        may_exist = batch.is_earlier
        requests = {f"{batch.name}-{i}": line.body for i, line in enumerate(batch.lines)}
        while batch.id is None:
            if may_exist:
                batch.id = await queue.api.find(batch.name, len(batch.lines), batch.sent_at)
            if batch.id is None and batch.is_earlier:
                self._send_back(queue, batch, {})
                return
            try:
                batch.id = batch.id or await queue.api.create(batch.name, requests)
            except EndpointError as error:
                if not error.kind.retryable:
                    self._handle_refusal(queue, batch, error)
                    return
                if error.status in _CREATED_NOTHING:
                    logger.warning("batch %d: %s; it is sent again", batch.number, error)
                else:
                    logger.warning(
                        "batch %d: %s; it is sent again unless the endpoint already has it",
                        batch.number,
                        error,
                    )
                    may_exist = True
                await asyncio.sleep(
                    min(error.retry_after or min(1.0, queue.settings.poll_s), LONG_WAIT_S)
                )
        self._record({"batch": batch.number, "id": batch.id})
        hint = queue.api.hint(batch.id, batch.model)
        logger.info(
            "batch %d: %d requests are sent as %s%s", batch.number, len(batch.lines), batch.id, hint
        )

    def _handle_refusal(self, queue: _Queue, batch: Batch, error: EndpointError) -> None:
        """Handle a batch that the endpoint refuses.

        Raises:
            EndpointError: it refuses all requests, not only one.
        """
        if error.status == _TOO_LARGE and len(batch.lines) > 1:
            queue.max_lines = len(batch.lines) // 2
            self._send_back(queue, batch, {})
            return
        index = -1
        match = _REQUEST_INDEX.search(error.answer)
        if len(batch.lines) == 1:
            index = 0
        elif match and match[1]:
            index = int(match[1])
        elif match:
            index = int(match[2]) - 1
        if error.status not in (400, 413, 422) or index not in range(len(batch.lines)):
            raise error
        self._send_back(queue, batch, {index: error.answer})

    def _send_back(self, queue: _Queue, batch: Batch, refused: Mapping[int | None, str]) -> None:
        """Mark a batch as void: refused requests get their refusal, the others are queued again.

        Requests of an earlier part of the run are sent when their calls are made.
        """
        batch.state = BatchState(VOID)
        self._record({"batch": batch.number, "state": VOID})
        for index, line in enumerate(batch.lines):
            if index in refused:
                line.resolve(RawResponse(400, wire.dumps({"error": {"message": refused[index]}})))
            elif line.call is not None:
                line.call.note_unsent()
                queue.lines.append(line)

    async def _fetch_results(self, queue: _Queue, batch: Batch, name: str) -> None:
        """Wait for the end of a batch, and give each line its response.

        Raises:
            EndpointError: its state cannot be read, or the whole batch was refused.
        """
        while True:
            state = await queue.api.state(name)
            if state.status != batch.state.status or state.is_over:
                self._record(
                    {
                        "batch": batch.number,
                        "state": state.status,
                        "done": state.done,
                        "of": state.total,
                    }
                )
            batch.state = state
            if state.is_over:
                break
            await asyncio.sleep(queue.settings.poll_s)
        if state.refused:
            if None in state.refused:
                message = f"the batch was refused: {state.refused[None]}"
                raise EndpointError(
                    FailureKind.REJECTED, endpoint=queue.endpoint.redacted_url, answer=message
                )
            self._send_back(queue, batch, state.refused)
            return
        lines = {f"{batch.name}-{i}": line for i, line in enumerate(batch.lines)}
        unknown = repeated = 0
        for custom_id, response in await queue.api.results(name, state):
            line = lines.get(custom_id)
            if line is None:
                unknown += 1
            elif line.response.done():
                repeated += not line.response.cancelled()
            else:
                line.resolve(response)
        missing = [line for line in lines.values() if not line.response.done()]
        for line in missing:
            line.resolve(
                f"no response: the batch is {state.status}, and its results have no line for it"
            )
        if unknown or repeated or missing:
            logger.warning(
                "batch %d: ignored lines of unknown requests: %d; ignored repeated lines: %d; "
                "missing lines: %d",
                *(batch.number, unknown, repeated, len(missing)),
            )


BATCHES: ContextVar[Batches | None] = ContextVar("batches", default=None)
"""The batches of the current run, if its requests go into batches."""


def _identity(call: RequestRecord) -> str:
    """Return a digest that identifies a request in its run; empty outside of rows."""
    if call.row is None:
        return ""
    text = f"{call.row.name}\0{call.key}\0{call.part}"
    return hashlib.blake2b(text.encode(), digest_size=9).hexdigest()
