"""Resolves the settings of each case with the package of a checkout, and writes them, a case a line."""

from __future__ import annotations

import json
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.conformance.equal_runs.driving import Driver, Job, driver_of
from tests.conformance.equal_runs.making import MADE, commit_of
from tests.conformance.equal_settings.case import VARIABLES, Case
from tests.conformance.equal_settings.cases import cases_of

_RECORDER = Path(__file__).with_name("recorder.py")
_SAID = 4
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d |\{\"time\"")
RESOLVED = "resolved.jsonl"


def make(folder: Path, checkout: Path, only: str) -> Sequence[Mapping[str, Any]]:
    """Resolve the cases whose names have a pattern, and return what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    checkout = checkout.resolve()
    (folder / MADE).write_text(
        json.dumps({"checkout": str(checkout), "commit": commit_of(checkout)})
    )
    cases = [case for case in cases_of(checkout) if fnmatch(case.name, only)]
    with (
        driver_of(checkout) as driver,
        tempfile.TemporaryDirectory() as place,
        _taken_port() as port,
    ):
        lines = []
        for case in cases:
            lines.append(_resolve(case, driver, checkout, Path(place), port.getsockname()[1]))
            print(f"{case.name}: {len(lines[-1]['clients'])} clients", file=sys.stderr, flush=True)
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    (folder / RESOLVED).write_text(text, encoding="utf-8")
    return lines


def _taken_port() -> socket.socket:
    """A port at which no server can listen: it ends when its judges are open."""
    return socket.create_server(("127.0.0.1", 0))


def _resolve(case: Case, driver: Driver, checkout: Path, place: Path, port: int) -> dict[str, Any]:
    folder = place / "case"
    folder.mkdir()
    for name, text in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name in ("examples", "judgegym", "configs", "eval_environments", "environments"):
        (folder / name).symlink_to(checkout / name)
    variables = {**VARIABLES, **dict.fromkeys(case.unset, "")}
    words = _at(port, case.words) if case.words[0] == "judge-server" else case.words
    record = place / "record.json"
    record.write_text("[]")
    said = place / "said.txt"
    code = driver.run(Job(words, folder, said, variables, _RECORDER, {"record": str(record)}))
    clients = json.loads(record.read_text())
    lines = said.read_text(encoding="utf-8", errors="replace").splitlines() if code else []
    told = [line for line in lines if not _LOGGED.match(line)][-_SAID:]
    shows_config = case.shows_config and bool(clients)
    config = _config(case, driver, folder, variables, place) if shows_config else []
    shutil.rmtree(folder)
    line = {"case": case.name, "code": code, "said": told, "clients": clients, "config": config}
    text = json.dumps(line, ensure_ascii=False)
    for path, name in ((str(place), "FOLDER"), (str(checkout), "CHECKOUT"), (str(port), "PORT")):
        text = text.replace(path, name)
    resolved: dict[str, Any] = json.loads(text)
    return resolved


def _config(
    case: Case, driver: Driver, folder: Path, variables: Mapping[str, str], place: Path
) -> Sequence[str]:
    """What `--show_config` prints."""
    said = place / "config.txt"
    driver.run(Job([*case.words, "--show_config=all"], folder, said, variables))
    return said.read_text(encoding="utf-8", errors="replace").splitlines()


def _at(port: int, words: Collection[str]) -> list[str]:
    """The words of a server with another port, and without workers, which are processes of their own."""
    kept, is_value = list[str](), False
    for word in words:
        if (
            not is_value
            and not word.startswith(("--port=", "--workers="))
            and word not in ("--port", "--workers")
        ):
            kept.append(word)
        is_value = word in ("--port", "--workers")
    return [*kept, f"--port={port}"]
