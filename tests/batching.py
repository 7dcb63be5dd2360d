"""An endpoint that speaks live completions, OpenAI's files and batches, and Anthropic's message batches.

A batch is over after it was looked at `looks` times. Its answers are those of the script, as live.
A `fault` may change the lines of its results, and its state.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.scripted import Json, Reply, Script, ScriptedEndpoint, completion

Line = dict[str, Any]


@dataclass
class SentBatch:
    """A batch as it was created: its number from 1, its requests by their ids, and how it stands."""

    number: int
    name: str
    requests: dict[str, Json]
    metadata: Json = field(default_factory=dict)
    looks: int = 0
    state: str = "in_progress"
    errors: list[Json] = field(default_factory=list)


Fault = Callable[[SentBatch, list[Line]], "list[Line]"]
"""Changes the lines of the results; it may set `batch.state`."""


def as_chat(body: Json) -> Json:
    """A request of either form with plain texts as contents, as scripts read it."""
    parts = [
        *([{"role": "system", "content": body["system"]}] if "system" in body else []),
        *body["messages"],
    ]
    messages = [
        {**each, "content": "".join(block["text"] for block in each["content"])}
        if isinstance(each["content"], list)
        else each
        for each in parts
    ]
    return {**body, "messages": messages}


def message_of(body: Json) -> Json:
    """A message of Anthropic's form with the text of a completion."""
    text, usage = body["choices"][0]["message"]["content"], body["usage"]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "judge",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "output_tokens": usage["completion_tokens"],
        },
    }


class BatchEndpoint(ScriptedEndpoint):
    """Serves batches beside live completions.

    Attributes:
        batches: all that were created.
        files: by their ids.
        live: requests that came live.
        refuses: says why a new batch is refused, as `(status, message)`; `None` if it is not.
        before: is called with method and path of each request of a batch API, and may answer it.
    """

    def __init__(
        self, script: Script | Reply | str = "fine", *, looks: int = 1, fault: Fault | None = None
    ) -> None:
        super().__init__(script)
        self.batches: list[SentBatch] = []
        self.files: dict[str, bytes] = {}
        self.live = 0
        self.looks, self.fault = looks, fault
        self.refuses: Callable[[SentBatch], tuple[int, str] | None] = lambda batch: None
        self.before: Callable[[str, str], web.Response | None] = lambda method, path: None
        self.after: Callable[[str, str], web.Response | None] = lambda method, path: None
        self._results: dict[str, list[Line]] = {}

    @property
    def asked(self) -> Counter[str]:
        """How often each request arrived in a batch that was not refused."""
        return Counter(
            json.dumps(body, sort_keys=True)
            for batch in self.batches
            for body in batch.requests.values()
        )

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path, method = request.path.removeprefix("/v1"), request.method
        if path == "/chat/completions":
            self.live += 1
            return await super()._serve(request)
        if (early := self.before(method, path)) is not None:
            return early
        raw = await request.read()
        answer = await self._batch_api(request, method, path, raw)
        late = self.after(method, path)
        return answer if late is None else late

    async def _batch_api(
        self, request: web.Request, method: str, path: str, raw: bytes
    ) -> web.Response:
        if (method, path) == ("POST", "/files"):
            parts = re.search(rb"\r\n\r\n(\{.*)\r\n--", raw, re.DOTALL)
            assert parts is not None and b'name="purpose"\r\n\r\nbatch' in raw
            name = f"file-{len(self.files)}"
            self.files[name] = parts[1]
            return web.json_response({"id": name})
        if (method, path) == ("POST", "/batches"):
            body = json.loads(raw)
            lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
            assert all(line["url"] == body["endpoint"] == "/v1/chat/completions" for line in lines)
            return self._created(
                {line["custom_id"]: line["body"] for line in lines}, len(lines), body["metadata"]
            )
        if (method, path) == ("POST", "/messages/batches"):
            assert request.headers["anthropic-version"]
            requests = json.loads(raw)["requests"]
            return self._created(
                {each["custom_id"]: each["params"] for each in requests}, len(requests), {}
            )
        kind = "/messages/batches" if path.startswith("/messages") else "/batches"
        if method == "GET" and path == kind:
            listed = [self._shown(batch, kind) for batch in reversed(self.batches)]
            return web.json_response({"data": listed, "has_more": False})
        if path.startswith("/files/"):
            name = path.split("/")[2]
            return (
                web.Response(body=self.files[name])
                if name in self.files
                else web.json_response({}, status=404)
            )
        found = next(
            (batch for batch in self.batches if f"{path}/".startswith(f"{kind}/{batch.name}/")),
            None,
        )
        if found is None:
            return web.json_response({"error": {"message": "no such batch"}}, status=404)
        if path.endswith("/results"):
            lines = self._results[found.name]
            return web.Response(text="".join(json.dumps(line) + "\n" for line in lines))
        if path.endswith("/cancel"):
            found.state = "cancelled"
        await self._look(found, kind)
        return web.json_response(self._shown(found, kind))

    def _created(self, requests: dict[str, Json], lines: int, metadata: Json) -> web.Response:
        assert len(requests) == lines, "two requests of one id"
        batch = SentBatch(len(self.batches) + 1, f"batch_{len(self.batches)}", requests, metadata)
        if (refusal := self.refuses(batch)) is not None:
            return web.json_response({"error": {"message": refusal[1]}}, status=refusal[0])
        self.batches.append(batch)
        return web.json_response({"id": batch.name})

    async def _look(self, batch: SentBatch, kind: str) -> None:
        batch.looks += 1
        is_open = batch.state == "in_progress" and batch.looks < self.looks
        if is_open or batch.name in self._results:
            return
        is_ours = kind == "/batches"
        lines = []
        for custom_id, body in batch.requests.items():
            self._number += 1
            reply = await self._reply(as_chat(body), self._number)
            content = completion(reply.text) if reply.body is None else reply.body
            if is_ours:
                response = {"status_code": reply.status, "request_id": "r", "body": content}
                lines.append(
                    {"id": "l", "custom_id": custom_id, "response": response, "error": None}
                )
            elif reply.status == 200:
                lines.append(
                    {
                        "custom_id": custom_id,
                        "result": {"type": "succeeded", "message": message_of(content)},
                    }
                )
            else:
                kinds = {400: "invalid_request_error", 429: "rate_limit_error"}
                said = (reply.body or {}).get("error", {}).get("message", "no")
                error = {"type": kinds.get(reply.status, "api_error"), "message": said}
                result = {"type": "errored", "error": {"type": "error", "error": error}}
                lines.append({"custom_id": custom_id, "result": result})
        if batch.state == "in_progress":
            batch.state = "completed"
        self._results[batch.name] = lines if self.fault is None else self.fault(batch, lines)
        output = "".join(json.dumps(line) + "\n" for line in self._results[batch.name])
        self.files[f"out-{batch.name}"] = output.encode()

    def _shown(self, batch: SentBatch, kind: str) -> Json:
        total, is_over = len(batch.requests), batch.name in self._results
        if kind == "/batches":
            counts = {"total": total, "completed": total if is_over else 0, "failed": 0}
            files = {
                "output_file_id": f"out-{batch.name}" if is_over else None,
                "error_file_id": None,
            }
            state = {
                "id": batch.name,
                "status": batch.state,
                "metadata": batch.metadata,
                "request_counts": counts,
            }
            return {**state, **files, "errors": {"data": batch.errors}, "created_at": 9e9}
        counts = {
            "processing": 0 if is_over else total,
            "succeeded": total if is_over else 0,
            "errored": 0,
        }
        status = "ended" if is_over else "in_progress"
        state = {"id": batch.name, "processing_status": status, "request_counts": counts}
        return {**state, "created_at": "2099-01-01T00:00:00Z"}


@contextmanager
def serving_folder(folder: Path, script: Callable[[Json, int], Reply | str]) -> Iterator[None]:
    """Answer each file of batch lines that comes to a folder, as `vllm run-batch` does."""
    is_over = threading.Event()

    def answer() -> None:
        while not is_over.wait(0.005):
            for path in folder.glob("*[0-9].jsonl"):
                out = path.with_suffix(".out.jsonl")
                if out.exists():
                    continue
                lines = []
                for number, line in enumerate(
                    map(json.loads, path.read_text().splitlines()), start=1
                ):
                    reply = script(line["body"], number)
                    body = completion(reply if isinstance(reply, str) else reply.text)
                    lines.append({"id": "v", "custom_id": line["custom_id"], "error": None})
                    lines[-1]["response"] = {"status_code": 200, "request_id": "r", "body": body}
                out.write_text("".join(json.dumps(each) + "\n" for each in lines))

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
