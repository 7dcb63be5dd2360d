"""Conversations of several turns while endpoints fail and the run is killed: nothing is lost, or paid for twice."""

from __future__ import annotations

import random
import re
import signal
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.llm.retries import retry
from tests.command import RunFiles, Started, in_process, serving, write_lines
from tests.core.datasets.scoring import rated
from tests.forking import ROOT
from tests.scripted import Json, Reply, Script, ScriptedEndpoint

SCRIPT = ROOT / "judgegym" / "__main__.py"
AT_ONCE, MOST_OWN, MOST_OF_USER = 4, 3, 3
ROLES = ("policy", "judge", "user")
FAULTS = (Reply(status=500), Reply(status=429), Reply(drop=True), Reply(body="no JSON"), Reply(""))
FAILING, REFUSED = 5, Reply(status=400, body={"error": {"message": "I say nothing"}})
"""One row in so many has a user whose endpoint refuses, for good."""


def number_of(text: str) -> int:
    return zlib.crc32(text.encode())


def rows(count: int) -> list[Json]:
    """Rows whose users have one to three messages of their own, before the simulated one goes on."""
    return [
        {
            "uid": f"row-{n}",
            "turns": [f"Row {n}: question {turn}?" for turn in range(n % MOST_OWN + 1)],
            "persona": "mute" if n % FAILING == 0 else f"person {n}",
        }
        for n in range(1, count + 1)
    ]


def answers(request: Json, number: int) -> str:
    return (
        f"Answer {number_of(str(request['messages']))} to {request['messages'][-1]['content'][:40]}"
    )


def speaks(request: Json, number: int) -> Reply | str:
    """A user who asks on for a while, or never says a word."""
    messages = request["messages"]
    if "USER PERSONA:\nmute" in messages[0]["content"]:
        return REFUSED
    said = number_of(str(messages))
    return "Well.\n[END OF CONVERSATION]" if said % 4 == 0 else f"And then, {said}?"


JUDGES = rated(lambda response: number_of(response) % 5 + 1)


@dataclass
class Faulty:
    """A script of which each fifth request fails when it arrives first; counts what it answered as usual."""

    script: Script
    share: int = 0
    delay_s: float = 0.0
    arrived: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: Json, number: int) -> Reply:
        body = repr(request)
        self.arrived[body] += 1
        seed = number_of(body)
        if self.share and self.arrived[body] == 1 and seed % self.share == 0:
            return FAULTS[seed // self.share % len(FAULTS)]
        given = self.script(request, number)
        assert isinstance(given, Reply | str)
        if given is REFUSED:
            return REFUSED
        self.answered[body] += 1
        return Reply(given if isinstance(given, str) else given.text, delay_s=self.delay_s)


@dataclass(frozen=True)
class Talk:
    """Rows, and the endpoints that are asked about them."""

    path: Path
    scripts: dict[str, Faulty]
    endpoints: dict[str, ScriptedEndpoint]

    def words(self, run: str) -> list[str]:
        urls = [f"--{name}={self.endpoints[role].base_url}" for name, role in URLS.items()]
        limits = [f"--{name}={AT_ONCE}" for name in LIMITS]
        places = [
            f"--env.eval_dataset={self.path / 'rows.jsonl'}",
            f"--env.data_dir_to_save_evals={self.path / run}",
        ]
        waits = ["--env.retry_delay=0", "--env.max_judge_error_rate=1"]
        return [
            "evaluate",
            *urls,
            *limits,
            *places,
            *waits,
            f"--env.user_max_turns={MOST_OF_USER}",
            *JUDGED,
        ]

    def run(self, run: str, *flags: str) -> RunFiles:
        ended = in_process(*self.words(run), *flags, env_type=PromptsEnv)
        assert ended.code == 0, ended.said
        return RunFiles(self.path / run)

    @property
    def requests(self) -> int:
        return sum(len(endpoint.requests) for endpoint in self.endpoints.values())


URLS = {"openai.base_url": "policy", "env.judge_base_url": "judge", "env.user_base_url": "user"}
LIMITS = ("openai.num_requests_for_eval", "env.judge_max_concurrency", "env.user_max_concurrency")
JUDGED = ("--env.judged=turns", "--env.judge_temperature=0", "--env.rubric=Is it true?")


@contextmanager
def talk(path: Path, count: int, *, share: int = 0, delay_s: float = 0.0) -> Iterator[Talk]:
    write_lines(path / "rows.jsonl", rows(count))
    scripts = dict(
        zip(
            ROLES, (Faulty(each, share, delay_s) for each in (answers, JUDGES, speaks)), strict=True
        )
    )
    with ExitStack() as stack:
        yield Talk(
            path,
            scripts,
            {role: stack.enter_context(serving(script)) for role, script in scripts.items()},
        )


def results(files: RunFiles) -> tuple[list[bytes], list[Json]]:
    """Samples and failures without what may differ: `run`, and port and number of requests in an error."""
    failures = [
        {name: value for name, value in row.items() if name != "run"} for row in files.failures
    ]
    return files.without_run(), [
        {**row, "error": re.sub(r":\d+/|\d+ requests?", "N", row["error"])} for row in failures
    ]


def checked(files: RunFiles, count: int) -> None:
    """All rows are there; those with a mute user failed as such, and no other."""
    mute = {f"row-{n}" for n in range(1, count + 1) if n % FAILING == 0}
    assert {(row["uid"], row["status"]) for row in files.failures} == {
        (uid, "user_failed") for uid in mute
    }
    assert all("I say nothing" in row["error"] for row in files.failures)
    assert len(files.samples) == count - len(mute)
    for row in files.samples:
        turns, parts = row.get("completions", [row]), row["detail"]["parts"]
        assert [name for name in parts if name.startswith("turn_")] == [
            f"turn_{n}" for n in range(1, len(turns) + 1)
        ]
        assert "END OF" not in str(turns)
    lengths = {len(row.get("completions", [row])) for row in files.samples}
    assert len(lengths) > 2 and lengths <= {*range(1, MOST_OWN + MOST_OF_USER + 1)}
    assert files.metrics["user_failed_count"] == len(mute)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry.random, "uniform", lambda least, most: 0.0)


def test_faults_change_no_sample(tmp_path: Path) -> None:
    count = 7
    with talk(tmp_path, count) as quiet:
        undisturbed = results(quiet.run("whole"))
    with talk(tmp_path, count, share=5) as faulty:
        files = faulty.run("run")
    assert results(files) == undisturbed
    checked(files, count)
    assert faulty.requests > quiet.requests, "some failed"
    for script in faulty.scripts.values():
        assert {*script.answered.values()} == {1}, "no answer is paid for twice"


def test_resumed_run_asks_nothing_twice(tmp_path: Path) -> None:
    with talk(tmp_path, 6) as whole:
        files = whole.run("run")
        before, made = (
            {role: len(endpoint.requests) for role, endpoint in whole.endpoints.items()},
            results(files),
        )
        files.interrupt("row-3", "row-5")
        assert results(whole.run("run", "--resume")) == made
        after = {role: len(endpoint.requests) for role, endpoint in whole.endpoints.items()}
    assert after == {**before, "user": before["user"] + 1}, (
        "only the user who refused is asked again"
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_and_resumed_under_faults_it_is_the_undisturbed_run(
    tmp_path: Path, seed: int
) -> None:
    count, numbers = 200, random.Random(seed)
    with talk(tmp_path, count) as quiet:
        undisturbed = results(quiet.run("whole"))
        once = {role: script.answered for role, script in quiet.scripts.items()}
    stops = [signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGTERM]
    with talk(tmp_path, count, share=5, delay_s=0.002) as faulty:
        for place, stop in enumerate(stops):
            after = faulty.requests + numbers.randint(50, 400)
            words = [
                faulty.words("run")[0],
                "prompts",
                *faulty.words("run")[1:],
                *(["--resume"] if place else []),
            ]
            with Started(str(SCRIPT), *words, cwd=tmp_path) as started:
                started.until(arrived(faulty, after), f"request {after}")
                started.send(stop)
                assert started.ended().code in (-stop, 128 + stop)
        files = faulty.run("run", "--resume")
    assert results(files) == undisturbed
    checked(files, count)
    for role, script in faulty.scripts.items():
        assert script.answered.keys() == once[role].keys(), (
            "everything that was asked belongs to the run"
        )
        assert (script.answered - once[role]).total() <= AT_ONCE * len(stops), (
            "only what was in flight"
        )
    assert all(endpoint.peak <= AT_ONCE for endpoint in faulty.endpoints.values())


def arrived(faulty: Talk, count: int) -> Callable[[], bool]:
    return lambda: faulty.requests >= count
