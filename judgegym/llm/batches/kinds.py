"""Batch endpoints: OpenAI's files and batches, Anthropic's message batches, a folder of lines.

We give each batch a unique name; its requests have the ids `NAME-0`, `NAME-1` and so on. The name
finds a batch that was created without being recorded: OpenAI keeps it as metadata, a folder as the
name of a file. Anthropic keeps only the ids of requests, and shows them only in the results. There
a recent batch with the same number of requests is ours if its results have our ids. Ended batches
are checked first; we wait at most ten minutes for others.

Source: the API references of OpenAI (files, batches) and Anthropic (message batches), and `vllm
run-batch`.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.llm import wire
from judgegym.llm.at_once import gather_results
from judgegym.llm.errors import EndpointError, FailureKind, SettingsError
from judgegym.llm.ledger import Upload
from judgegym.llm.responses.outcome import RawResponse
from judgegym.llm.types import BatchOptions
from judgegym.llm.wire import JSON, mapping_or_empty

if TYPE_CHECKING:
    from judgegym.llm.transport import Transport

logger = logging.getLogger(__name__)

CLOCK_SKEW_S = 120.0
"""Tolerated difference between a provider's clock and ours, in seconds."""
_LOOK_S = 1.0
_WAIT_S = 600.0
"""After this time a batch that may exist is created again, though it may be paid for twice."""


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state of a batch, as the provider reports it.

    Attributes:
        status: the provider's word.
        done: the number of requests with a response or an error.
        total: the number of requests; 0 if the provider does not say.
        is_over: the batch has ended.
        files: the ids of the files with the results.
        refused: if the whole batch was refused, the reasons by the index of the request; `None` for
            all.
    """

    status: str
    done: int = 0
    total: int = 0
    is_over: bool = False
    files: tuple[str, ...] = ()
    refused: Mapping[int | None, str] = field(default_factory=dict)


BatchResults = list[tuple[str, "RawResponse | str"]]
"""For each line of the results its id, and its response or why there is none."""


class BatchApi:
    """OpenAI's files and batches; the base class of the other batch endpoints.

    Attributes:
        max_bytes: the largest size of a batch's lines.
    """

    max_bytes = 190_000_000
    _path = "/v1/batches"
    _page_parameter = "after"
    """The query parameter with the last batch of the previous page."""

    def __init__(self, caller: Transport) -> None:
        """Call the provider through `caller`."""
        self._caller = caller

    async def create(self, name: str, requests: Mapping[str, bytes]) -> str:
        """Create a batch; return the provider's id.

        Args:
            name: our name of the batch.
            requests: the requests' bodies as JSON, by id.

        Raises:
            EndpointError: the batch was not created, or it is unknown whether it was
                (`FailureKind.retryable`).
        """
        boundary = uuid.uuid4().hex
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f"--{boundary}\r\n"
            f'Content-Disposition: form-data; name="file"; filename="{name}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        data = b"".join(
            (head.encode(), *_openai_lines(requests), f"\r\n--{boundary}--\r\n".encode())
        )
        uploaded_file = await self._json(
            "/v1/files", Upload(data, f"multipart/form-data; boundary={boundary}")
        )
        fields = {
            "input_file_id": uploaded_file.get("id"),
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"judgegym_batch": name},
        }
        return _require_id(
            await self._json(self._path, Upload(wire.dumps(fields), may_count_twice=True))
        )

    async def find(self, name: str, requests: int, since: float) -> str | None:
        """Return the id of the batch with this name, if it was created.

        Args:
            name: our name of the batch.
            requests: its number of requests.
            since: the earliest time at which it was sent (Unix time).
        """
        async for batch in self._created_since(since):
            if mapping_or_empty(batch.get("metadata")).get("judgegym_batch") == name:
                return _require_id(batch)
        return None

    async def state(self, batch: str) -> BatchState:
        """Return the state of a batch."""
        body = await self._json(f"{self._path}/{batch}")
        status, counts = str(body.get("status")), mapping_or_empty(body.get("request_counts"))
        files = [
            name
            for key in ("output_file_id", "error_file_id")
            if isinstance(name := body.get(key), str)
        ]
        errors = _list(wire.lookup(body, "errors.data"))
        return BatchState(
            status,
            _count(counts, "completed", "failed"),
            _count(counts, "total"),
            status in ("completed", "failed", "expired", "cancelled"),
            tuple(filter(None, files)),
            dict(map(_refusal, errors)) if status == "failed" else {},
        )

    async def results(self, batch: str, state: BatchState) -> BatchResults:
        """Return the lines of a batch's results, in any order; some may be missing."""
        results: BatchResults = []
        for file in state.files:
            results += openai_results(await self._caller.request_text(f"/v1/files/{file}/content"))
        return results

    async def cancel(self, batch: str) -> None:
        """Cancel a batch; requests done by then are billed, and their results stay."""
        await self._json(f"{self._path}/{batch}/cancel", Upload(b""))

    def hint(self, batch: str, model: str) -> str:
        """Return what the user has to do so that the batch is run; empty if nothing."""
        return ""

    async def _json(self, path: str, upload: Upload | None = None) -> Mapping[str, JSON]:
        return mapping_or_empty(await self._caller.request_json(path, upload=upload))

    async def _created_since(self, since: float) -> AsyncIterator[Mapping[str, JSON]]:
        """Yield the account's batches that were created since a time, or shortly before."""
        async for batch in self._list_batches():
            created = _parse_time(batch.get("created_at"))
            if created is not None and created < since - CLOCK_SKEW_S:
                return
            yield batch

    async def _list_batches(self) -> AsyncIterator[Mapping[str, JSON]]:
        query = "?limit=100"
        while True:
            page = await self._json(self._path + query)
            for batch in _list(page.get("data")):
                yield mapping_or_empty(batch)
            if not page.get("has_more") or not isinstance(page.get("last_id"), str):
                return
            query = f"?limit=100&{self._page_parameter}={page['last_id']}"


class AnthropicBatches(BatchApi):
    """Anthropic's message batches."""

    max_bytes = 240_000_000
    _path = "/v1/messages/batches"
    _page_parameter = "after_id"

    async def create(self, name: str, requests: Mapping[str, bytes]) -> str:
        """See `BatchApi`."""
        lines = (
            b'{"custom_id":%b,"params":%b}' % (wire.dumps(request_id), body)
            for request_id, body in requests.items()
        )
        data = b'{"requests":[' + b",".join(lines) + b"]}"
        return _require_id(await self._json(self._path, Upload(data, may_count_twice=True)))

    async def find(self, name: str, requests: int, since: float) -> str | None:
        """See `BatchApi`. Wait at most `_WAIT_S` for unfinished batches that may be it."""
        candidates = []
        async for entry in self._created_since(since):
            counts = mapping_or_empty(entry.get("request_counts"))
            if _count(counts, *counts) == requests:
                candidates.append(_require_id(entry))
        deadline = time.monotonic() + _WAIT_S
        has_warned = False
        while candidates:
            states = dict(
                zip(candidates, await gather_results(map(self.state, candidates)), strict=True)
            )
            for batch in candidates:
                if states[batch].is_over and await self._has_name(batch, states[batch], name):
                    return batch
            candidates = [batch for batch in candidates if not states[batch].is_over]
            if not candidates or time.monotonic() > deadline:
                break
            if not has_warned:
                logger.warning(
                    "batch %s may already have been created: waiting for %s to end, which may be "
                    "it; after %.0f minutes it is sent again",
                    *(name, ", ".join(candidates), _WAIT_S / 60),
                )
                has_warned = True
            await asyncio.sleep(_LOOK_S)
        return None

    async def _has_name(self, batch: str, state: BatchState, name: str) -> bool:
        results = await self.results(batch, state)
        return any(custom_id.rpartition("-")[0] == name for custom_id, _ in results)

    async def state(self, batch: str) -> BatchState:
        """See `BatchApi`."""
        body = await self._json(f"{self._path}/{batch}")
        counts, status = (
            mapping_or_empty(body.get("request_counts")),
            str(body.get("processing_status")),
        )
        total = _count(counts, *counts)
        return BatchState(status, total - _count(counts, "processing"), total, status == "ended")

    async def results(self, batch: str, state: BatchState) -> BatchResults:
        """See `BatchApi`."""
        text = await self._caller.request_text(f"{self._path}/{batch}/results")
        return [_anthropic_result(line) for line in _parse_lines(text)]


class BatchFolder(BatchApi):
    """A folder: writes `NAME.jsonl` and waits for `NAME.out.jsonl`."""

    def __init__(self, caller: Transport, folder: Path) -> None:
        """Write to `folder`, which is created if it does not exist."""
        super().__init__(caller)
        self._folder, self._sizes = folder, dict[str, int]()

    async def create(self, name: str, requests: Mapping[str, bytes]) -> str:
        """See `BatchApi`."""
        path = self._file(name)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            part.write_bytes(b"".join(_openai_lines(requests)))
            part.replace(path)
        except OSError as error:
            raise SettingsError(
                f"judge_batch_folder: {path} cannot be written: {error.strerror}"
            ) from error
        return name

    async def find(self, name: str, requests: int, since: float) -> str | None:
        """See `BatchApi`."""
        if self._file(name).exists():
            return name
        return None

    async def state(self, batch: str) -> BatchState:
        """See `BatchApi`: it has ended when it has all lines, or does not grow any more."""
        path, out = self._file(batch), self._file(batch).with_suffix(".out.jsonl")
        if not out.exists():
            if not path.exists():
                raise EndpointError(
                    FailureKind.REJECTED, endpoint=f"{path}", answer="the file is gone", status=404
                )
            return BatchState(f"waits for {out}")
        total = sum(map(bool, path.read_bytes().split(b"\n"))) if path.exists() else 0
        data = out.read_bytes()
        *lines, last = data.split(b"\n")  # the last one may lack its end, or be half written
        is_whole, size = not last or isinstance(wire.loads_or_none(last), Mapping), len(data)
        done = sum(map(bool, lines)) + (bool(last) and is_whole)
        is_unchanged = size > 0 and self._sizes.get(batch) == size and is_whole
        self._sizes[batch] = size
        return BatchState("written", done, total, is_over=is_unchanged or 0 < total <= done)

    async def results(self, batch: str, state: BatchState) -> BatchResults:
        """See `BatchApi`."""
        return openai_results(
            self._file(batch).with_suffix(".out.jsonl").read_text("utf-8", "replace")
        )

    async def cancel(self, batch: str) -> None:
        """See `BatchApi`: remove the file, unless it has been answered."""
        self._file(batch).unlink(missing_ok=True)

    def hint(self, batch: str, model: str) -> str:
        """See `BatchApi`."""
        path = self._file(batch)
        output = path.with_suffix(".out.jsonl")
        return f"; to answer it:\n  vllm run-batch -i {path} -o {output} --model {model}"

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.jsonl"


def open_batches(settings: BatchOptions, caller: Transport) -> BatchApi:
    """Open the batch endpoint that the settings name."""
    if settings.kind == "folder":
        return BatchFolder(caller, settings.folder or Path())
    if settings.kind == "anthropic":
        return AnthropicBatches(caller)
    return BatchApi(caller)


def openai_results(text: str) -> BatchResults:
    """Parse a file of results in OpenAI's format; other lines count as missing."""
    return [_openai_result(line) for line in _parse_lines(text)]


def _openai_result(line: Mapping[str, JSON]) -> tuple[str, RawResponse | str]:
    """Return the id and the response of a line of results."""
    custom_id, error = str(line.get("custom_id")), wire.dumps({"error": line.get("error")})
    status, body = (wire.lookup(line, f"response.{name}") for name in ("status_code", "body"))
    if type(status) is int:
        if isinstance(body, Mapping) and line.get(
            "error"
        ):  # as of a choice: what it goes with is not believed
            body = {**body, "error": line["error"]}
        return custom_id, RawResponse(status, error if body is None else wire.dumps(body))
    message = wire.shorten(wire.error_text(error), 200)
    return custom_id, f"no response: {message}"


_ERROR_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
    "timeout_error": 504,
}
"""The HTTP statuses of Anthropic's errors; 500 for all others."""


def _anthropic_result(line: Mapping[str, JSON]) -> tuple[str, RawResponse | str]:
    """Return the id and the response of a line of results."""
    custom_id, result = str(line.get("custom_id")), mapping_or_empty(line.get("result"))
    kind = result.get("type")
    if kind == "succeeded":
        return custom_id, RawResponse(200, wire.dumps(result.get("message")))
    if kind != "errored":
        return custom_id, f"no response: {kind}"
    error = mapping_or_empty(result.get("error"))
    inner = mapping_or_empty(error.get("error")) or error
    return custom_id, RawResponse(
        _ERROR_STATUSES.get(str(inner.get("type")), 500), wire.dumps({"error": inner})
    )


def _openai_lines(requests: Mapping[str, bytes]) -> Iterator[bytes]:
    line = b'{"custom_id":%b,"method":"POST","url":"/v1/chat/completions","body":%b}\n'
    return (line % (wire.dumps(request_id), body) for request_id, body in requests.items())


def _parse_lines(text: str) -> Iterator[Mapping[str, JSON]]:
    """Yield the JSON objects of a text's lines; other lines are skipped."""
    for line in text.split("\n"):
        value = wire.loads_or_none(line.encode())
        if isinstance(value, Mapping):
            yield value


def _refusal(error: JSON) -> tuple[int | None, str]:
    fields = mapping_or_empty(error)
    line = fields.get("line")  # counted from 1
    return line - 1 if isinstance(line, int) else None, str(
        fields.get("message") or fields.get("code")
    )


def _require_id(body: Mapping[str, JSON]) -> str:
    """Return the id in a response; raise `EndpointError` if it has none."""
    batch_id = body.get("id")
    if not isinstance(batch_id, str) or not batch_id:
        raise EndpointError(
            FailureKind.REJECTED, endpoint="the batch endpoint", answer=f"no id in {body!r:.200}"
        )
    return batch_id


def _parse_time(value: JSON) -> float | None:
    """Return a time in seconds or in ISO 8601 as Unix time; `None` if it is neither."""
    if isinstance(value, int | float):
        return float(value)
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _count(counts: Mapping[str, JSON], *names: str) -> int:
    return sum(value for name in names if isinstance(value := counts.get(name), int))


def _list(value: JSON) -> Sequence[JSON]:
    if isinstance(value, list):
        return value
    return []
