"""Arena-Hard with candidates: answers that name their author, and a judge who goes by the names."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.arena import Arena, uid_of
from tests.command import Ended, RunFiles, in_process, serving, write_lines
from tests.scripted import Json, Reply, Script, ScriptedEndpoint

_SHOWN = re.compile(
    r"<\|The Start of Assistant ([AB])'s Answer[^|]*\|>\n(.*?)\n<\|The End of Assistant", re.DOTALL
)
_AUTHOR = re.compile(r"ANSWER of (\S+)|(BASELINE)")

OUT_OF_ORDER = Reply(status=400, body={"error": {"message": "out of order"}})

Verdict = Callable[[str, str, str], "Reply | str"]
"""What a judge says of a game, from the row's id and the names of who is A and who is B."""


def shown(request: Json) -> tuple[str, str]:
    """The answers of A and B that a judge was shown."""
    found = dict(_SHOWN.findall(request["messages"][1]["content"]))
    return found["A"], found["B"]


def players(request: Json) -> tuple[str, str]:
    """Who is A, and who is B."""
    first, second = (_AUTHOR.search(answer) for answer in shown(request))
    assert first is not None and second is not None
    return first[1] or "baseline", second[1] or "baseline"


def answering(name: str, failing: Collection[str] = ()) -> Script:
    """A candidate's endpoint, which refuses what it is asked about some rows."""
    return lambda request, _: (
        OUT_OF_ORDER if uid_of(request) in failing else answer_of(name, uid_of(request))
    )


def judging(verdict: Verdict) -> Script:
    """A judge who goes by the names."""
    return lambda request, _: verdict(uid_of(request), *players(request))


def planted(strengths: Mapping[str, float], *, position: float = 0.0, ties: float = 0.1) -> Verdict:
    """A judge for whom who is first wins with the odds of the strengths (in natural logarithms) and the position."""

    def verdict(uid: str, first: str, second: str) -> str:
        drawn = (
            int.from_bytes(hashlib.sha256(f"{uid} {first} {second}".encode()).digest()[:8], "big")
            / 2**64
        )
        odds = strengths[first] - strengths[second] + position
        if drawn < ties:
            return "[[A=B]]"
        return "[[A>B]]" if (drawn - ties) / (1 - ties) < 1 / (1 + math.exp(-odds)) else "[[B>A]]"

    return verdict


def better(*ranking: str) -> Verdict:
    """A judge for whom the earlier one always wins."""
    return lambda uid, first, second: (
        "[[A>B]]" if ranking.index(first) < ranking.index(second) else "[[B>A]]"
    )


def answer_of(name: str, uid: str) -> str:
    """An answer, from which a judge knows whose it is."""
    return f"ANSWER of {name} to {uid}"


@dataclass(frozen=True)
class Compared:
    """An evaluation of candidates that ended, and what its judge and the candidates with an endpoint were asked."""

    ended: Ended
    files: RunFiles
    judge: ScriptedEndpoint
    policies: Mapping[str, ScriptedEndpoint]

    @property
    def code(self) -> int:
        return self.ended.code

    @property
    def said(self) -> str:
        assert "Traceback" not in self.ended.said
        return self.ended.said

    @property
    def metrics(self) -> dict[str, float]:
        return self.files.metrics

    @property
    def left_out(self) -> dict[str, str]:
        return self.files.left_out

    @property
    def games(self) -> list[tuple[str, str, str]]:
        """The row and both players of each request to the judge."""
        return [(uid_of(body), *players(body)) for body in self.judge.bodies]

    def table(self, name: str) -> list[dict[str, str]]:
        """A CSV file of the run."""
        with (self.files.path / name).open(encoding="utf-8", newline="") as lines:
            return list(csv.DictReader(lines))


@dataclass
class Contest:
    """A dataset and candidates."""

    arena: Arena
    count: int

    @property
    def path(self) -> Path:
        return self.arena.path

    @property
    def uids(self) -> list[str]:
        return [f"row-{number}" for number in range(self.count)]

    def file(self, name: str, answers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """A candidate with a file of answers, some of them given here."""
        rows = [
            {"uid": uid, "answer": (answers or {}).get(uid, answer_of(name, uid))}
            for uid in self.uids
        ]
        return {"name": name, "answers": str(write_lines(self.path / f"{name}.jsonl", rows))}

    def compare(
        self,
        *flags: str,
        candidates: Sequence[Mapping[str, Any] | str],
        verdict: Verdict | None = None,
        policies: Mapping[str, Script] | None = None,
        run: str = "run",
        **env: str,
    ) -> Compared:
        """Compare candidates in this process; a name is one with a file, or with an endpoint of `policies`."""
        with ExitStack() as stack:
            judge = stack.enter_context(serving(judging(verdict or (lambda *_: "[[A=B]]"))))
            asked = {
                name: stack.enter_context(serving(script))
                for name, script in (policies or {}).items()
            }
            listed = [
                candidate
                if isinstance(candidate, Mapping)
                else {"name": candidate, "base_url": asked[candidate].base_url}
                if candidate in asked
                else self.file(candidate)
                for candidate in candidates
            ]
            argv = self.arena.argv(judge.base_url, "http://127.0.0.1:9/v1", run=run)
            ended = in_process(
                *argv,
                f"--env.candidates={json.dumps(listed)}",
                "--env.max_retries=0",
                *flags,
                env=env,
            )
        return Compared(ended, self.arena.files(run), judge, asked)


def contest(path: Path, rows: int) -> Contest:
    """A dataset of so many rows."""
    return Contest(Arena(path).rows(rows), rows)
