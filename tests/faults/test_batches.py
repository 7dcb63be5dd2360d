"""A run in batches that is killed at any moment: nothing is lost or asked twice, and FILE is that of a live run."""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from aiohttp import web

from tests.batching import BatchEndpoint, Line, SentBatch
from tests.billing import Provider
from tests.command import Ended, Started, serving, write_lines
from tests.core.datasets.scoring import samples_of, score
from tests.faults.test_budgets import Commands
from tests.forking import ROOT
from tests.scripted import Json, Reply

SCRIPT = ROOT / "judgegym" / "__main__.py"
ROWS = [{"prompt": f"question {n}", "response": f"{n % 5 + 1} points, {n}"} for n in range(36)]
PRICES = ("--judge_price_input=1", "--judge_price_output=2")
KINDS = ("openai", "anthropic")
Moment = Callable[[str, str], bool]


ROUNDS = "--judge_critique_rounds=1"
"""A judgment takes two calls, one after the other."""
_RESPONSE = re.compile(r"(\d) points, \d+")


def judge_of(request: Json, number: int) -> Reply | str:
    """A judge that rates by the response, also where it revises its judgment."""
    found = _RESPONSE.search(json.dumps(request["messages"]))
    assert found is not None
    return f"[FEEDBACK] Because. [SCORE] {found[1]}"


class KilledRun:
    """The command, which is killed when a request to a batch API is about to be answered, or was."""

    def __init__(
        self, folder: Path, judge: BatchEndpoint, kind: str, out: str, *words: str
    ) -> None:
        self.data, self.out = write_lines(folder / "data.jsonl", ROWS), folder / out
        self.judge, self.folder = judge, folder
        given = (
            f"--judge_batch={kind}",
            f"--judge_api={kind}",
            "--judge_batch_poll=0.005",
            ROUNDS,
            *PRICES,
            *words,
        )
        self.words = (
            "score",
            str(self.data),
            f"--out={self.out}",
            f"--judge_base_url={judge.base_url}",
            *given,
        )

    def run(self, moment: Moment | None, *, before: bool = False, delay_s: float = 0.0) -> bool:
        """Run it, or go on with it; return whether it was killed."""
        is_killed, is_over = threading.Event(), threading.Event()
        words = [*self.words, *(["--resume"] if self.out.with_suffix(".run").exists() else [])]
        with Started(str(SCRIPT), *words, cwd=self.folder) as started:

            def kill() -> None:
                if not is_over.is_set():  # a process is polled by one thread alone
                    is_killed.set()
                    with contextlib.suppress(ProcessLookupError):
                        started.send(signal.SIGKILL)

            def look(method: str, path: str) -> web.Response | None:
                if moment is not None and not is_killed.is_set() and moment(method, path):
                    threading.Timer(delay_s, kill).start() if delay_s else kill()
                return None

            self.judge.before, self.judge.after = (look, nobody) if before else (nobody, look)
            ended = started.ended()
            is_over.set()
        assert ended.code in ((-signal.SIGKILL, 0) if moment else (0,)), ended.said
        assert "Traceback" not in ended.said
        return ended.code != 0


def nobody(method: str, path: str) -> web.Response | None:
    return None


def is_result(path: str) -> bool:
    return path.endswith(("/results", "/content"))


def check(run: KilledRun, whole: Path, batches: Sequence[SentBatch], *, resent: int = 0) -> None:
    """No row twice, none lost; no batch twice; no request in two batches, unless the first had no response to it."""
    assert run.out.read_bytes() == whole.read_bytes()
    strip = [[{**sample, "run": None} for sample in samples_of(out)] for out in (run.out, whole)]
    assert strip[0] == strip[1]
    names = [next(iter(batch.requests)).rpartition("-")[0] for batch in batches]
    assert len(set(names)) == len(names), "a batch was created twice"
    asked = [
        json.dumps(body, sort_keys=True) for batch in batches for body in batch.requests.values()
    ]
    assert len(asked) - len(set(asked)) == resent
    assert run.judge.live == 0
    costs = [
        json.loads((out.with_suffix(".run") / "metrics.json").read_text())
        for out in (run.out, whole)
    ]
    half, full = (cost["results"]["all"]["eval/judge_cost_usd"] for cost in costs)
    assert half == pytest.approx(full / 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FILE of a live run."""
    folder = tmp_path_factory.mktemp("live")
    data, out = write_lines(folder / "data.jsonl", ROWS), folder / "whole.jsonl"
    with serving(judge_of) as judge:
        assert (
            score(data, "--out", out, f"--judge_base_url={judge.base_url}", ROUNDS, *PRICES).code
            == 0
        )
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        (
            "openai",
            lambda method, path: method == "POST" and path == "/batches",
        ),  # created, and not recorded
        ("anthropic", lambda method, path: is_result(path)),  # come, and not recorded
        ("anthropic", lambda method, path: method == "POST"),
        ("openai", lambda method, path: is_result(path)),
        ("openai", lambda method, path: path == "/files"),
    ],
)
def test_killed_at_the_worst_moments(
    tmp_path: Path, whole: Path, kind: str, moment: Moment
) -> None:
    with serving(BatchEndpoint(judge_of, looks=2)) as judge:
        assert isinstance(judge, BatchEndpoint)
        run = KilledRun(tmp_path, judge, kind, "out.jsonl")
        assert run.run(moment)
        assert not run.run(None)
        check(run, whole, judge.batches)
        assert len(judge.batches) == 2  # one for each call of a judgment


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_twenty_kills_at_random_moments_with_faults_of_the_batches(
    tmp_path: Path, whole: Path, kind: str, seed: int
) -> None:
    numbers, resent, kills, runs = random.Random(f"{kind} {seed}"), 0, 0, 0

    def fault(batch: SentBatch, lines: list[Line]) -> list[Line]:
        nonlocal resent
        rest = random.Random(f"{seed} {batch.name}")
        rest.shuffle(lines)
        kept = [line for line in lines if rest.random() < 0.85]
        resent += len(lines) - len(kept)
        batch.state = (
            "completed"
            if len(kept) == len(lines)
            else rest.choice(["expired", "cancelled", "completed"])
        )
        return [*kept, *kept[:1], {**lines[0], "custom_id": "stranger-0"}]

    while kills < 20:
        runs, resent = runs + 1, 0
        with serving(BatchEndpoint(judge_of, looks=2, fault=fault)) as judge:
            assert isinstance(judge, BatchEndpoint)
            words = ("--judge_batch_rows=9", "--judge_batch_lines=5", "--judge_batch_retries=20")
            run = KilledRun(tmp_path, judge, kind, f"out-{runs}.jsonl", *words)
            while kills < 20:
                left = iter(range(numbers.randint(1, 12), 0, -1))
                is_before, delay_s = (
                    numbers.random() < 0.5,
                    numbers.choice([0.0, 0.002, 0.01, 0.03]),
                )
                if not run.run(
                    lambda *_, left=left: next(left, 1) == 1, before=is_before, delay_s=delay_s
                ):
                    break
                kills += 1
            if kills == 20 and not run.out.exists():
                run.run(None)
            check(run, whole, judge.batches, resent=resent)


@pytest.mark.parametrize("verb", ["evaluate", "process"])
def test_the_judge_of_an_environment_is_asked_in_batches_and_its_policy_live(
    tmp_path: Path, verb: str
) -> None:
    commands = Commands(tmp_path, random.Random(verb))
    run: Callable[..., Ended] = getattr(commands, verb)
    with serving(BatchEndpoint(Provider(1, faults=False))) as live:
        assert isinstance(live, BatchEndpoint)
        assert run(live.base_url, "whole").code == 0
    script = Provider(1, faults=False)
    with serving(BatchEndpoint(script, looks=2)) as judge:
        assert isinstance(judge, BatchEndpoint)
        words = (
            "--env.judge_batch=openai",
            "--env.judge_batch_poll=0.005",
            f"--env.budget_usd={script.usd + 99}",
        )
        ended = run(judge.base_url, "parts", *words)
    assert ended.code == 0, ended.said
    assert commands.results(verb, "parts") == commands.results(verb, "whole")
    assert judge.live + sum(judge.asked.values()) == live.live
    assert 0 < len(judge.batches) <= 2 and judge.live > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--judge_batch=anthropic"], "expected judge_api=anthropic, found judge_api=openai"),
        (
            ["--judge_batch=openai", "--judge_base_url=http://a/v1,http://b/v1"],
            "one base URL",
        ),
        (["--judge_batch=folder"], "needs --judge_batch_folder"),
        (["--judge_batch=openai", "--offline"], "has no batches"),
        (["--judge_batch=openai", "--ray"], "actors of --ray"),
    ],
)
def test_what_cannot_be_sent_in_batches_is_one_line(
    tmp_path: Path, words: Sequence[str], said: str
) -> None:
    url = (
        []
        if "--offline" in words or "http" in str(words)
        else ["--judge_base_url=http://127.0.0.1:9/v1"]
    )
    data = write_lines(tmp_path / "data.jsonl", ROWS[:1])
    ended = score(data, f"--out={tmp_path / 'out.jsonl'}", *url, *words)
    assert ended.code == 2 and said in ended.said and "Traceback" not in ended.said
