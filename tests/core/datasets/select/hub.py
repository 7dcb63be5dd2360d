"""A scripted Hugging Face hub: a real HTTP server with what `huggingface_hub` 2.4.0 asks for to push small files."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_aVerySecretToken"
ORGANISATION = "ours"


class ScriptedHub:
    """What the hub has: the files of each data set, and which are private."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.asked: list[str] = []
        self.commits = 0
        self.url = ""

    def answer(self, method: str, path: str, token: str, body: bytes) -> tuple[int, Any]:
        """The status and the JSON (or bytes) of an answer."""
        self.asked.append(f"{method} {path}")
        if token != f"Bearer {TOKEN}":
            return 401, {"error": "Invalid username or password."}
        if path == "/api/whoami-v2":
            return 200, {"type": "user", "name": "me", "orgs": [{"name": ORGANISATION}]}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        for repository, files in self.files.items():
            if path == f"/api/datasets/{repository}":
                return 200, {"id": repository, "private": self.private[repository], "siblings": []}
            name = path.removeprefix(f"/datasets/{repository}/resolve/main/")
            if name != path:
                return (200, files[name]) if name in files else (404, {"error": "Entry not found"})
            if path == f"/api/datasets/{repository}/preupload/main":
                asked = json.loads(body)["files"]
                modes = [
                    {"path": each["path"], "uploadMode": "regular", "shouldIgnore": False}
                    for each in asked
                ]
                return 200, {"files": modes}
            if path == f"/api/datasets/{repository}/commit/main":
                return self._commit(repository, body)
        return 404, {"error": "Repository not found"}

    def _create(self, asked: dict[str, Any]) -> tuple[int, Any]:
        owner = asked.get("organization") or "me"
        if owner not in ("me", ORGANISATION):
            return 403, {
                "error": f'You don\'t have the rights to create a dataset under the namespace "{owner}"'
            }
        repository = f"{owner}/{asked['name']}"
        if repository in self.files:
            return 409, {
                "error": "You already created this dataset repo",
                "url": f"{self.url}/datasets/{repository}",
            }
        self.files[repository], self.private[repository] = {}, asked.get("visibility") == "private"
        return 200, {"url": f"{self.url}/datasets/{repository}", "name": repository}

    def _commit(self, repository: str, body: bytes) -> tuple[int, Any]:
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.files[repository][line["value"]["path"]] = base64.b64decode(
                    line["value"]["content"]
                )
        self.commits += 1
        oid = f"{self.commits:040x}"
        url = f"{self.url}/datasets/{repository}/commit/{oid}"
        return 200, {"success": True, "commitOid": oid, "commitUrl": url, "hookOutput": ""}


@contextmanager
def serving_hub() -> Iterator[ScriptedHub]:
    """A hub of its own port, until the end."""
    hub = ScriptedHub()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b"".join(_chunks(self.rfile))
            path = self.path.partition("?")[0]
            status, found = hub.answer(
                self.command, path, self.headers.get("Authorization", ""), body
            )
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("ETag", '"etag"')
            if status == 404:
                self.send_header(
                    "X-Error-Code", "EntryNotFound" if "resolve" in path else "RepoNotFound"
                )
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_POST = do_HEAD = _answer

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _chunks(lines: Any) -> Iterator[bytes]:
    while size := int(lines.readline(), 16):
        yield lines.read(size)
        lines.readline()
    lines.readline()
