"""What a run has asked and what came of it, a task a line: its samples, its recorded calls, and its requests."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.equal_runs.comparing import OF_ONE_RUN

Json = dict[str, Any]
_CASE, _ROW = re.compile(r"\(case (\d+)\)"), re.compile(r"(?:tied:)?(row-\d+)")
"""What the prompt of a row has, and what the command calls it."""
_CALL = (
    "component",
    "vote",
    "part",
    "group",
    "key",
    "model",
    "parameters",
    "has_verdict",
    "verdict_at",
)
_ANSWER = ("choices", "attempts", "cached", "usage", "refused")
_NOBODY = "no task"
_SAID = 3
"""So many lines of what a command said are kept: those at its end."""


@dataclass(frozen=True)
class Collected:
    """The records of one setting.

    Attributes:
        code: the command's exit code.
        whole: what is no task's: exit code, results of `metrics.json`, last words of a command that
            was refused.
        tasks: of each task a line.
    """

    code: int
    whole: Json
    tasks: Sequence[Json]

    @property
    def about(self) -> str:
        """One line for people."""
        samples = [sample for task in self.tasks for sample in task["samples"]]
        scored = sum(sample["score"] is not None for sample in samples)
        requests = sum(count for task in self.tasks for _, count in task["requests"])
        said = (
            f"{len(self.tasks)} tasks, {len(samples)} samples, {scored} with a score, {requests} "
            "requests"
        )
        return f"exit code {self.code}, {said}{self.whole['said']}"


def collect(
    folder: Path, code: int, asked: Mapping[str, int], address: str, *, are_shared: bool = False
) -> Collected:
    """Read what a command has left in its folder.

    Args:
        folder: of the command, with the folder of its run.
        code: its exit code.
        asked: the requests that the endpoint has had, each with how often it came.
        address: of the endpoint, which is another one in each run.
        are_shared: which calls share a request, and which of these has its attempts and cost,
            depends on time.
    """
    run = next((path.parent for path in folder.rglob("samples.jsonl")), folder)
    tasks: defaultdict[str, Json] = defaultdict(
        lambda: {"samples": [], "calls": [], "requests": []}
    )
    for name in ("samples.jsonl", "failures.jsonl"):
        for sample in _lines(run / name):
            tasks[_row_of(sample["uid"])]["samples"].append(_of_every_run(sample))
    for row, call in _calls(run):
        tasks[_row_of(row)]["calls"].append(call)
    for text, count in sorted(asked.items()):
        found = _CASE.search(text)
        tasks[f"row-{found[1]}" if found else _NOBODY]["requests"].append((json.loads(text), count))
    for task in tasks.values():
        if are_shared:
            task["samples"] = [{**sample, "run": None} for sample in task["samples"]]
            task["calls"] = [{**call, "usage": None, "attempts": None} for call in task["calls"]]
        task["calls"].sort(key=lambda call: json.dumps(call, sort_keys=True))
    lines = [{"task": name, **tasks[name]} for name in sorted(tasks, key=_number_of)]
    whole = {
        "code": code,
        "results": None if are_shared else _results(run),
        "said": _said(folder, code),
    }
    text = (
        json.dumps([whole, lines], ensure_ascii=False)
        .replace(address, "ENDPOINT")
        .replace(str(folder), "FOLDER")
    )
    return Collected(code, *json.loads(text))


def write_collected(path: Path, collected: Collected) -> None:
    """Write the records of a setting: a line of each task, then one of the whole."""
    with gzip.open(path, "wt", compresslevel=2, encoding="utf-8") as file:
        for line in (*collected.tasks, collected.whole):
            file.write(f"{json.dumps(line, ensure_ascii=False)}\n")


def _row_of(uid: str | None) -> str:
    """The row of a sample's or call's name: `row-7.2` is a response of `row-7`."""
    found = _ROW.match(uid or "")
    return found[1] if found else _NOBODY


def _number_of(task: str) -> int:
    return 0 if task == _NOBODY else int(task.removeprefix("row-"))


def _lines(path: Path) -> Iterator[Any]:
    if path.exists():
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def _of_every_run(value: Any) -> Any:
    """A value without what two equal runs need not have in common; what a run's calls took stays out, too."""
    if isinstance(value, dict):
        return {
            name: _of_every_run(inner)
            for name, inner in value.items()
            if name == "run" or not _differs(name)
        }
    return [_of_every_run(inner) for inner in value] if isinstance(value, list) else value


def _differs(name: str) -> bool:
    return OF_ONE_RUN.fullmatch(name) is not None


def _calls(run: Path) -> Iterator[tuple[str | None, Json]]:
    packed, plain = run / "calls.jsonl.gz", run / "calls.jsonl"
    text = gzip.decompress(packed.read_bytes()).decode() if packed.exists() else ""
    text = plain.read_text(encoding="utf-8") if plain.exists() else text
    for line in text.splitlines():
        call = json.loads(line).get("call")
        if call is not None:
            answer = call.get("answer") or {}
            found = {name: call.get(name) for name in _CALL} | {
                name: answer.get(name) for name in _ANSWER
            }
            yield call.get("row"), found


def _results(run: Path) -> Any:
    metrics = _whole(run / "metrics.json")
    return _of_every_run(metrics.get("results")) if metrics else None


def _whole(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _said(folder: Path, code: int) -> str:
    if code in (0, 1) and any(folder.rglob("samples.jsonl")):
        return ""
    said = (folder / "said.txt").read_text(encoding="utf-8").splitlines()
    return "\n".join(["", *said[-_SAID:]])
