"""An environment's rows, its three verbs in this process, and stand-ins with faults for its endpoints."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.engine.settings.verbs import uses
from judgegym.judges.config.composed import expand_choices
from judgegym.offline import process
from judgegym.offline.answers import load_prompts
from judgegym.offline.process import StandInSettings
from judgegym.offline.server import StandInServer
from tests.command import PATIENCE_S, Ended, RunFiles, in_process, write_lines
from tests.conformance.subjects import KEYS, SUBJECTS, Subject, Verb
from tests.faults.further_faults import faults
from tests.scripted import Json, Recorded, Reply
from tests.trainer import ScriptedServer, posted

GROUP = 3
_PROMPTS = [
    known
    for subject in SUBJECTS
    for prompt in subject.env_type.spec.offline_prompts
    for known in (load_prompts(prompt) if isinstance(prompt, str) else (prompt,))
]


class Loop:
    """An event loop on a thread of its own, for endpoints."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="endpoints", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    @contextmanager
    def entered(self, manager: Any) -> Iterator[Any]:
        """An asynchronous context manager in this loop."""
        given = asyncio.run_coroutine_threadsafe(manager.__aenter__(), self._loop).result(
            PATIENCE_S
        )
        try:
            yield given
        finally:
            asyncio.run_coroutine_threadsafe(
                manager.__aexit__(None, None, None), self._loop
            ).result(PATIENCE_S)


@dataclass(frozen=True)
class Endpoint:
    """A stand-in."""

    base_url: str
    server: StandInServer

    @property
    def answered(self) -> Counter[str]:
        """How often each request had its answer."""
        return Counter({digest: count for digest, count in self.server.answered.items() if count})

    @property
    def asked(self) -> Counter[str]:
        """How often each request has arrived."""
        return Counter(self.server.asked)

    @property
    def faults(self) -> Counter[str]:
        return self.server.faults

    @property
    def requests(self) -> int:
        return self.server.requests


@contextmanager
def stand_in(loop: Loop, **settings: Any) -> Iterator[Endpoint]:
    """A stand-in with these settings; `faults` are rates."""
    rates = settings.pop("faults", {})
    server = StandInServer(StandInSettings(faults=faults(rates), prompts=_PROMPTS, **settings))
    listener = process.listen("127.0.0.1", 0)
    url = process.make_url(listener)
    with loop.entered(server.serving(listener)):
        yield Endpoint(url, server)


@dataclass
class TrainerInMemory:
    """A rollout API whose trainer makes its only step when it has a number of groups."""

    wanted: int
    groups: list[Json] = field(default_factory=list)
    registrations: int = 0

    def __call__(self, request: Recorded, number: int) -> Reply:
        """Answer a request."""
        is_over = len(self.groups) >= self.wanted
        match request.path:
            case "/info":
                return Reply(body={"batch_size": self.wanted * GROUP, "max_token_len": -1})
            case "/register-env":
                self.registrations += 1
                answer = {
                    "status": "success",
                    "env_id": 0,
                    "wandb_name": "it",
                    "checkpoint_dir": "",
                    "num_steps": 1,
                }
                return Reply(body={**answer, "checkpoint_interval": -1, "starting_step": 0})
            case "/status-env":
                queue = 0 if is_over else len(self.groups)
                status = {"queue_size": queue, "self_queue_size": queue, "env_weight": 1.0}
                return Reply(
                    body={**status, "current_step": int(is_over), "unallocated_fraction": 1.0}
                )
            case "/scored_data" | "/scored_data_list":
                self.groups += posted(request)
                return Reply(body={"status": "received"})
            case "/wandb_info":
                return Reply(body={"group": None, "project": None})
        return Reply(body={})

    @property
    def sorted_groups(self) -> list[str]:
        """The groups, whatever their order."""
        return sorted(json.dumps(group, sort_keys=True) for group in self.groups)


@dataclass(frozen=True)
class Outcome:
    """A command that ended, and what its endpoints saw.

    Attributes:
        result: what it made: sample lines without `run`, or groups.
        failures: rows that it listed as failed.
    """

    ended: Ended
    result: Sequence[Any]
    failures: Sequence[Json]
    policy: Endpoint
    judge: Endpoint

    @cached_property
    def answered(self) -> Counter[str]:
        """How often each request had its answer."""
        return self.policy.answered + self.judge.answered

    @property
    def asked(self) -> Counter[str]:
        """How often each request has arrived."""
        return self.policy.asked + self.judge.asked

    @property
    def faults(self) -> Counter[str]:
        return self.policy.faults + self.judge.faults


@dataclass(frozen=True)
class Bench:
    """A subject with so many rows, in a directory of its own."""

    subject: Subject
    rows: int
    path: Path
    loop: Loop

    def __post_init__(self) -> None:
        rows = [self.subject.row(f"row-{number}") for number in range(self.rows)]
        for name, made in self.subject.datasets.items():
            write_lines(self.path / f"{name}.jsonl", [made(row) for row in rows])

    def flags(self, verb: Verb, run: str) -> list[str]:
        """The settings of a run, without its endpoints; no pauses."""
        settings = [
            *(f"--env.{name}={self.path / name}.jsonl" for name in self.subject.datasets),
            *self.subject.role,
            *self.subject.flags_of(verb),
            f"--env.data_dir_to_save_evals={self.path / run}",
            f"--env.data_path_to_save_groups={self.path / run}.jsonl",
            "--env.retry_delay=0",
            f"--env.group_size={GROUP}",
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            "--env.ensure_scores_are_not_same=False",
            f"--env.max_num_workers={self.rows}",
            f"--env.total_steps={self.rows if verb == 'process' else 1}",
            "--env.max_batches_offpolicy=1",
            "--env.steps_per_eval=-1",
        ]
        config_type = expand_choices(self.subject.env_type.config_type)
        return [
            flag
            for flag in settings
            if uses(verb, config_type, flag.removeprefix("--env.").partition("=")[0])
        ]

    def argv(self, verb: Verb, run: str, policy: Endpoint, judge: Endpoint) -> list[str]:
        """A command line."""
        endpoints = self.subject.endpoints(verb, policy.base_url, judge.base_url)
        return [verb, *endpoints, *self.flags(verb, run)]

    def run(
        self,
        verb: Verb,
        *flags: str,
        run: str = "run",
        policy: Mapping[str, Any] | None = None,
        judge: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """A command in this process, with the settings of its endpoints."""
        trainer = TrainerInMemory(self.rows)
        with (
            stand_in(self.loop, **(policy or {})) as asked,
            stand_in(self.loop, **(judge or {})) as judging,
            self.loop.entered(ScriptedServer(trainer)) as api,
        ):
            where = [f"--env.rollout_server_url={api.url}"] if verb == "serve" else []
            argv = self.argv(verb, run, asked, judging)
            ended = in_process(*argv, *where, *flags, env_type=self.subject.env_type, env=KEYS)
        assert "Traceback" not in ended.said
        return Outcome(ended, *self._made(verb, run, trainer), asked, judging)

    def _made(
        self, verb: Verb, run: str, trainer: TrainerInMemory
    ) -> tuple[Sequence[Any], Sequence[Json]]:
        if verb == "serve":
            return trainer.sorted_groups, []
        if verb == "process":
            path = self.path / f"{run}.jsonl"
            return path.read_bytes().splitlines() if path.exists() else [], []
        files = RunFiles(self.path / run)
        samples = files.without_run() if (files.path / "samples.jsonl").exists() else []
        return samples, files.failures if (files.path / "failures.jsonl").exists() else []
