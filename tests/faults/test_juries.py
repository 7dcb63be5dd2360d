"""Juries whose members fail or die: no score below the quorum, and none with a failed member's default."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import pytest

from judgegym.engine.runs.directory import locate_run_directory
from judgegym.llm import reachability
from judgegym.llm.retries import retry
from tests.command import Ended, serving, write_lines
from tests.core.datasets.scoring import read_rows, score
from tests.scripted import Json, Reply, ScriptedEndpoint, refusing

COUNT, AT_ONCE = 60, 4
ROWS = [{"id": n, "prompt": f"Question {n}", "response": f"Response {n}."} for n in range(COUNT)]
FAULTS = (Reply(status=400), Reply(status=500), Reply("I cannot say: 4 or 5."), Reply(drop=True))
REJECTED = Reply(status=401, body={"error": {"message": "no such key"}})
QUICK = (
    "--wait_for_endpoints=0.2",
    "--endpoint_away_deadline=0.2",
    "--endpoint_rejected_deadline=0.05",
)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "_FIRST_PROBE_PAUSE_S", 0.01)
    monkeypatch.setattr(retry.random, "uniform", lambda least, most: 0.0)


def rating(member: str, row: int) -> int:
    return zlib.crc32(f"{member}{row}".encode()) % 5 + 1


def mean(members: str, row: int) -> float:
    return fmean((rating(member, row) - 1) / 4 for member in members)


@dataclass
class Member:
    """A member's model: its rating is a function of the row, unless `fault` has something for the row."""

    name: str
    fault: Callable[[int], Reply | None] = lambda row: None
    answered: Counter[int] = field(default_factory=Counter)

    def __call__(self, request: Json, number: int) -> Reply:
        row = next(
            row["id"] for row in ROWS if row["response"] in request["messages"][-1]["content"]
        )
        if (fault := self.fault(row)) is not None:
            if not fault.drop and fault.status == 200:
                self.answered[row] += 1
            return fault
        self.answered[row] += 1
        return Reply(f"[FEEDBACK] So. [SCORE] {rating(self.name, row)}")


@dataclass
class Jury:
    """A data set that a jury of three endpoints judges."""

    path: Path
    members: dict[str, Member]
    endpoints: dict[str, ScriptedEndpoint]
    urls: dict[str, str]

    def words(self, *flags: str) -> list[str]:
        own = {"judge_max_concurrency": AT_ONCE}
        fields = [
            {"judge_model_name": name, "judge_base_url": url, **own}
            for name, url in self.urls.items()
        ]
        data, limit = (
            write_lines(self.path / "data.jsonl", ROWS),
            f"--judge_max_concurrency={AT_ONCE}",
        )
        return [
            str(data),
            f"--out={self.path / 'out.jsonl'}",
            f"--judges={json.dumps(fields)}",
            limit,
            *flags,
        ]

    def score(self, *flags: str) -> Ended:
        ended = score(*self.words(*flags))
        assert "Traceback" not in ended.said
        return ended

    def scores(self) -> dict[int, float | None]:
        return {row["id"]: row["judge/score"] for row in read_rows(self.path / "out.jsonl")}

    def sent(self) -> int:
        """Requests by the ledger."""
        path = locate_run_directory(self.path / "out.jsonl") / "calls.jsonl"
        packed = path.with_suffix(".jsonl.gz")
        raw = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
        lines = map(json.loads, raw.splitlines())
        counted = Counter(
            name for line in lines for name in ("sent", "again", "unsent") if name in line
        )
        return counted["sent"] + counted["again"] - counted["unsent"]

    @property
    def requests(self) -> int:
        return sum(len(endpoint.requests) for endpoint in self.endpoints.values())


@pytest.fixture
def jury(tmp_path: Path) -> Iterator[Jury]:
    members = {name: Member(name) for name in "abc"}
    with ExitStack() as stack:
        endpoints = {name: stack.enter_context(serving(member)) for name, member in members.items()}
        yield Jury(
            tmp_path, members, endpoints, {name: each.base_url for name, each in endpoints.items()}
        )


def faulty(row: int) -> Reply | None:
    return FAULTS[row // 5 % len(FAULTS)] if row % 5 == 0 else None


@pytest.mark.slow
@pytest.mark.parametrize("quorum", [2, 3])
def test_a_fifth_of_faults_in_one_member_leaves_no_default_behind(jury: Jury, quorum: int) -> None:
    jury.members["b"].fault = faulty
    ended = jury.score(
        f"--jury_quorum={quorum}", "--judge_max_retries=1", "--max_judge_error_rate=1"
    )
    assert ended.code == 0, ended.said
    for row, found in jury.scores().items():
        members = "abc" if faulty(row) is None else "ac"
        assert found == (pytest.approx(mean(members, row)) if len(members) >= quorum else None)
    assert jury.sent() == jury.requests


def dead(jury: Jury, name: str, how: str, stack: ExitStack) -> None:
    """Let a member never answer, or reject all requests from the first or from the thirteenth one on."""
    if how == "refuses":
        jury.urls[name] = stack.enter_context(refusing())
        return
    before = 0 if how == "rejects" else 12
    member = jury.members[name]
    member.fault = lambda row: REJECTED if member.answered.total() >= before else None


@pytest.mark.slow
@pytest.mark.parametrize("place", "ac")
@pytest.mark.parametrize("how", ["refuses", "rejects", "turns"])
def test_one_dead_member_is_left_out_and_said_once(jury: Jury, how: str, place: str) -> None:
    with ExitStack() as stack:
        dead(jury, place, how, stack)
        ended = jury.score(*QUICK)
    assert ended.code == 0, ended.said
    others = "abc".replace(place, "")
    for row, found in jury.scores().items():
        assert found == pytest.approx(
            mean("abc" if jury.members[place].answered[row] else others, row)
        )
    assert ended.said.count(f"member {place} gives no judgments") == 1
    if how != "refuses":
        assert len(jury.endpoints[place].requests) < COUNT, "probed now and then"
        assert jury.sent() == jury.requests


@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [("refuses", 2), ("rejects", 1), ("turns", 1)])
def test_a_run_whose_quorum_is_gone_stops_and_goes_on_without_paying_twice(
    jury: Jury, how: str, code: int
) -> None:
    with ExitStack() as stack:
        dead(jury, "b", how, stack)
        dead(jury, "c", how, stack)
        ended = jury.score(*QUICK)
    assert (ended.code, (jury.path / "out.jsonl").exists()) == (code, False), ended.said
    assert re.search(r"a jury of 3: 1 .*\bquorum is 2\b", " ".join(ended.said.split()))
    if how == "refuses":
        return
    for member in jury.members.values():
        member.fault = lambda row: None
    ended = jury.score("--resume")
    assert ended.code == 0, ended.said
    judged_by = [
        [name for name in "abc" if row in jury.members[name].answered] for row in range(COUNT)
    ]
    assert jury.scores() == {
        row: pytest.approx(mean("".join(names), row)) for row, names in enumerate(judged_by)
    }
    # A row whose third member was rejected first is finished: two of three are its quorum.
    assert sum(len(names) < 3 for names in judged_by) <= AT_ONCE and min(map(len, judged_by)) >= 2
    assert all({*member.answered.values()} == {1} for member in jury.members.values())
