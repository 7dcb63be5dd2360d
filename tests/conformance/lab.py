"""A subject with its rows, and endpoints that answer as the stand-in does except where a test says otherwise."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.engine.settings.verbs import uses
from judgegym.judges.config.composed import expand_choices
from tests.command import Ended, RunFiles, Started, in_process, serving
from tests.conformance.subjects import KEYS, Subject, Verb
from tests.scripted import Json, Reply, ScriptedEndpoint, completion

slow_with_several_models = pytest.mark.slow("arena_hard-candidates", "self_critique")
"""Marks a test that leaves those subjects out of the gate whose rows take the most calls."""

HANG = Reply(hang=True)
DOWN = Reply(status=400, body={"error": {"message": "out of order"}})
_ROW = re.compile(r"\brow-\d+\b")

_TIMINGS = ("latency", "seconds")
"""In the names of metrics that two runs do not have in common."""
_OF_ONE_RUN = frozenset(
    {
        ".lock",
        "calls.jsonl.gz",
        "config.yaml",
        "failures.jsonl",
        "metrics.json",
        "report.html",
        "run.log",
        "samples.jsonl",
    }
)
"""Files whose bytes are one run's own; the rest are the same for the same samples."""

_SAID: dict[str, bytes] = {}

Disturbance = Callable[[str], "Reply | None"]
"""What an endpoint answers to a request about a row, if not what the stand-in answers."""


def row_of(request: Json) -> str:
    """The row that a request is about."""
    found = {uid for message in request["messages"] for uid in _ROW.findall(message["content"])}
    assert len(found) == 1, f"a request is about one row, not {sorted(found)}"
    return found.pop()


def row_of_sample(sample: Mapping[str, Any]) -> str:
    """The row that a sample is of; a row may have several."""
    uid: str = sample["uid"]
    return uid.partition(":")[0]


@dataclass
class Disturbed:
    """A script that passes requests on to the stand-in, or to `planted`, but for those that `instead` answers."""

    stand_in_url: str
    instead: Disturbance = lambda uid: None
    planted: Callable[[Json, int], str] | None = None
    answered: Counter[str] = field(default_factory=Counter)
    texts: dict[str, list[str]] = field(default_factory=dict)

    async def __call__(self, request: Json, number: int) -> Reply:
        """Answer a request."""
        reply = self.instead(row_of(request))
        if reply is not None:
            return reply
        if self.planted is None:
            body = await self._said(request)
        else:
            body = json.dumps(completion(self.planted(request, number))).encode()
        uid = row_of(request)
        self.answered[uid] += 1
        self.texts.setdefault(uid, []).extend(
            choice["message"]["content"] for choice in json.loads(body)["choices"]
        )
        return Reply(body=body)

    async def _said(self, request: Json) -> bytes:
        """What the stand-in says: the same whenever it is asked the same, so that it is asked once."""
        key = json.dumps(request, sort_keys=True)
        if key not in _SAID:
            url = f"{self.stand_in_url}/chat/completions"
            async with (
                aiohttp.ClientSession() as session,
                session.post(url, json=request) as response,
            ):
                assert response.status == 200, await response.text()
                _SAID[key] = await response.read()
        return _SAID[key]


@dataclass(frozen=True)
class Side:
    """A policy or a judge."""

    script: Disturbed
    endpoint: ScriptedEndpoint

    def disturb(self, instead: Disturbance) -> None:
        """Answer otherwise from now on."""
        self.script.instead = instead

    def plant(self, script: Callable[[Json, int], str]) -> None:
        """Let this answer in place of the stand-in."""
        self.script.planted = script

    def restore(self) -> None:
        """Answer everything from now on, and count anew."""
        self.script.instead = lambda uid: None
        self.script.answered.clear()
        self.script.texts.clear()
        self.endpoint.requests.clear()

    @property
    def answered(self) -> Counter[str]:
        """How many requests about each row had the stand-in's answer."""
        return Counter(self.script.answered)

    def texts(self, uid: str) -> list[str]:
        """What it said about a row."""
        return list(self.script.texts.get(uid, []))

    def was_shown(self, text: str) -> bool:
        """Whether a text stands in a request to it."""
        return any(
            text in message["content"]
            for body in self.endpoint.bodies
            for message in body["messages"]
        )

    @property
    def asked(self) -> set[str]:
        """The rows that it was asked about."""
        return {row_of(body) for body in self.endpoint.bodies}


@dataclass(frozen=True)
class Lab:
    """A subject in a directory of its own."""

    subject: Subject
    path: Path
    data_flags: Sequence[str]
    policy: Side
    judge: Side

    def files(self, run: str = "run") -> RunFiles:
        """A run directory."""
        return RunFiles(self.path / run)

    @property
    def requests(self) -> int:
        """How many requests have arrived at policy and judge."""
        return len(self.policy.endpoint.requests) + len(self.judge.endpoint.requests)

    def restore(self) -> None:
        """Let policy and judge answer everything from now on, and count anew."""
        self.policy.restore()
        self.judge.restore()

    def data(self, verb: Verb) -> list[str]:
        """The flags that name the rows, as far as the verb uses them."""
        return self._used(verb, self.data_flags)

    def _used(self, verb: Verb, flags: Iterable[str]) -> list[str]:
        settings_type = expand_choices(self.subject.env_type.config_type)
        return [
            flag
            for flag in flags
            if uses(verb, settings_type, flag.removeprefix("--env.").partition("=")[0])
        ]

    def argv(self, *flags: str, verb: Verb = "evaluate", run: str = "run") -> list[str]:
        """A command line: no retries, no pauses."""
        policy, judge = self.policy.endpoint.base_url, self.judge.endpoint.base_url
        settings = [
            *self.data_flags,
            *self.subject.role,
            *self.subject.flags_of(verb),
            f"--env.data_dir_to_save_evals={self.path / run}",
            "--env.retry_delay=0",
            "--env.max_retries=0",
            "--env.judge_max_retries=0",
        ]
        return [
            verb,
            *self.subject.endpoints(verb, policy, judge),
            *self._used(verb, settings),
            *flags,
        ]

    def command(self, *argv: str, **env: str) -> Ended:
        """A command in this process, with the endpoints' keys."""
        return self.checked(in_process(*argv, env_type=self.subject.env_type, env={**KEYS, **env}))

    def checked(self, ended: Ended) -> Ended:
        """How a command ended: it neither crashed nor told a key, on the screen or on disk."""
        assert "Traceback" not in ended.said
        written = (path.read_bytes() for path in self.path.rglob("*") if path.is_file())
        for said in (ended.said.encode(), *written):
            assert not any(key.encode() in said for key in KEYS.values())
        return ended

    def evaluate(self, *flags: str, run: str = "run") -> Ended:
        """`evaluate` in this process."""
        return self.command(*self.argv(*flags, run=run))

    def finished(self, *flags: str, run: str = "run") -> RunFiles:
        """`evaluate` in this process, with success."""
        self.evaluate(*flags, run=run).successful()
        return self.files(run)

    def process(self, *flags: str, groups: str = "groups") -> Ended:
        """`process` in this process, into a file of groups of this name."""
        return self.command(*self.argv_of_process(*flags, groups=groups))

    def argv_of_process(self, *flags: str, groups: str = "groups") -> list[str]:
        """A command line of `process`: messages and groups of equal scores are kept, if no flag says else."""
        usual = (
            f"--env.tokenizer_name={BUNDLED_TOKENIZER}",
            "--env.ensure_scores_are_not_same=False",
            "--env.include_messages=true",
            f"--env.data_path_to_save_groups={self.groups_path(groups)}",
        )
        given = {flag.partition("=")[0] for flag in flags}
        return self.argv(
            *(flag for flag in usual if flag.partition("=")[0] not in given), *flags, verb="process"
        )

    def groups_path(self, groups: str = "groups") -> Path:
        """A file of groups."""
        return self.path / f"{groups}.jsonl"

    def groups(self, groups: str = "groups") -> list[dict[str, Any]]:
        """The groups in a file."""
        return [json.loads(line) for line in self.groups_path(groups).read_bytes().splitlines()]

    def train_metrics(self, groups: str = "groups") -> dict[str, float]:
        """The metrics of a run of `process`."""
        found: dict[str, float] = json.loads(
            (self.path / f"{groups}.run" / "train_metrics.json").read_bytes()
        )
        return found

    def started(self, *argv: str) -> Started:
        """A command as a process of its own, with the endpoints' keys."""
        return Started(str(self.subject.script), *argv, cwd=self.path, env=KEYS)

    def config(self, run: str = "run") -> Json:
        """The settings that a run recorded."""
        config: Json = yaml.safe_load((self.path / run / "config.yaml").read_text(encoding="utf-8"))
        return config


@contextmanager
def opened(subject: Subject, path: Path, stand_in_url: str) -> Iterator[Lab]:
    """A subject's rows and endpoints."""
    with ExitStack() as stack:
        scripts = [Disturbed(stand_in_url) for _ in range(2)]
        policy, judge = (Side(script, stack.enter_context(serving(script))) for script in scripts)
        yield Lab(subject, path, subject.data(path), policy, judge)


@dataclass(frozen=True)
class Undisturbed:
    """A run that nobody disturbed, and how many requests about each row it took."""

    files: RunFiles
    policy: Counter[str]
    judge: Counter[str]

    def same_results(self, files: RunFiles, *, ignoring: Sequence[str] = ()) -> None:
        """Another run has the same samples, metrics and reports, but for timings and metrics with these words."""
        assert files.without_run() == self.files.without_run()
        assert files.failures == self.files.failures == []
        ignored = (*_TIMINGS, *ignoring)
        assert _without(ignored, files.metrics) == _without(ignored, self.files.metrics)
        names = _names(self.files.path)
        assert _names(files.path) == names
        for name in sorted(names - _OF_ONE_RUN):
            assert (files.path / name).read_bytes() == (self.files.path / name).read_bytes(), name


def _without(words: Sequence[str], metrics: Mapping[str, float]) -> dict[str, float]:
    return {
        name: value for name, value in metrics.items() if not any(word in name for word in words)
    }


def _names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}
