"""Requests with several responses, shared by calls made at about the same time.

Guarantees: a request carries at most as many responses as the settings allow. Each call gets its
own item, and the failure of its request; a cancelled call does not end the others. Attempts, tokens
and cost are those of the first call of a request, so that they count once. A budget is free again
when all its calls are recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from judgegym.judges.reward_models.protocols import Protocol, RewardInput
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError
from judgegym.llm.ledger import RequestRecord
from judgegym.llm.types import ChatResponse
from judgegym.llm.usage import Usage
from judgegym.llm.wire import JSON

_WAIT_S = 0.01
"""A request that is not full leaves after this time."""


class RewardBatches:
    """Sender of one judge's calls, several responses in a request."""

    def __init__(
        self, client: ChatClient, protocol: Protocol, size: int, fields: Mapping[str, JSON]
    ) -> None:
        """Send through `client`, at most `size` responses a request, with further `fields`."""
        self._client, self._protocol, self._size, self._fields = client, protocol, size, fields
        self._waiting: list[_Member] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def send(self, reward_input: RewardInput, record: RequestRecord) -> ChatResponse:
        """Send one call, alone or with others.

        Raises:
            EndpointError: no attempt of its request succeeded.
            RunStop: no further attempt may be made.
        """
        if self._size == 1:
            return await self._request([reward_input], record)
        member = _Member(reward_input, record)
        self._waiting.append(member)
        if len(self._waiting) == self._size:
            self._send_batch()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_WAIT_S, self._send_batch)
        return await member.response

    def _send_batch(self) -> None:
        """Send the waiting calls in one request."""
        if self._timer is not None:
            self._timer.cancel()
        members, self._waiting, self._timer = (
            [member for member in self._waiting if not member.response.done()],
            [],
            None,
        )
        if members:
            task = asyncio.get_running_loop().create_task(self._send_together(members))
            self._sending.add(task)  # the event loop has only weak references to tasks
            task.add_done_callback(self._sending.discard)
            for pending in members:
                pending.response.add_done_callback(partial(_cancel_if_all_left, task, members))

    async def _send_together(self, members: Sequence[_Member]) -> None:
        first, *others = members
        record = RequestRecord(first.record.part, first.record.row)
        try:
            answer = await self._request([member.shown for member in members], record)
        except Exception as error:  # noqa: BLE001  # any error is that of all its calls
            first.fail(error)
            for failed_member in others:
                failed_member.fail(
                    error.make_shared_error() if isinstance(error, EndpointError) else error
                )
        else:
            parts = [replace(answer, choices=(choice,)) for choice in answer.choices]
            for failed_member, part in zip(others, parts[1:], strict=True):
                failed_member.finish(replace(part, usage=Usage(), attempts=0))
            first.finish(parts[0])
        # The calls go on in the order in which they were told, so the first one records its answer
        # last.
        first.record.number = record.number
        if first.response.cancelled() and record.finish is not None:
            record.finish()
        else:
            first.record.finish = record.finish

    async def _request(self, inputs: Sequence[RewardInput], record: RequestRecord) -> ChatResponse:
        protocol = self._protocol
        record.path, record.read = protocol.path, partial(protocol.read, len(inputs))
        messages = list(chain.from_iterable(reward_input.messages for reward_input in inputs))
        return await self._client.request(
            messages, {**protocol.body(inputs), **self._fields}, record
        )


class _Member:
    """Call that waits for its item."""

    def __init__(self, reward_input: RewardInput, record: RequestRecord) -> None:
        self.shown, self.record = reward_input, record
        self.response: asyncio.Future[ChatResponse] = asyncio.get_running_loop().create_future()

    def finish(self, answer: ChatResponse) -> None:
        if not self.response.done():
            self.response.set_result(answer)

    def fail(self, error: Exception) -> None:
        if not self.response.done():
            self.response.set_exception(error)


def _cancel_if_all_left(task: asyncio.Task[None], members: Sequence[_Member], _: object) -> None:
    """Cancel a request that nobody waits for any more."""
    if all(member.response.cancelled() for member in members):
        task.cancel()
