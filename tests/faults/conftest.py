from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from judgegym.environments.training import connection
from judgegym.environments.training import serve as serving
from judgegym.llm.http import exchange
from tests.conformance.subjects import SUBJECTS, Subject, Verb
from tests.faults.bench import Bench, Loop, Outcome

ROWS = 6
LEAN = replace(
    next(subject for subject in SUBJECTS if subject.title == "rubric_absolute-policy"),
    flags=("--env.samples_per_item=2",),
)
"""A policy and a judge, and no more calls than it takes."""


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    """Where all endpoints live."""
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the rollout API for news, and a failing policy again, a hundred times a second; give up a huge body early."""
    monkeypatch.setattr(exchange, "_LONGEST_BODY", 4 << 20)
    monkeypatch.setattr(connection, "_POLL_S", 0.01)
    monkeypatch.setattr(serving, "_AFTER_FAILURE_S", 0.01)


@pytest.fixture
def subject() -> Subject:
    """The environment of a test that needs but one."""
    return LEAN


@pytest.fixture
def bench(subject: Subject, tmp_path: Path, loop: Loop) -> Bench:
    """The subject's rows."""
    return Bench(subject, ROWS, tmp_path, loop)


@pytest.fixture(scope="session")
def _undisturbed(
    tmp_path_factory: pytest.TempPathFactory, loop: Loop
) -> Callable[[Subject, Verb], Outcome]:
    @cache
    def run(subject: Subject, verb: Verb) -> Outcome:
        outcome = Bench(subject, ROWS, tmp_path_factory.mktemp("undisturbed"), loop).run(verb)
        assert outcome.ended.code == 0, outcome.ended.said
        assert len(outcome.result) >= ROWS
        return outcome

    return run


@pytest.fixture
def undisturbed(
    subject: Subject, verb: Verb, _undisturbed: Callable[[Subject, Verb], Outcome]
) -> Outcome:
    """The subject's run with endpoints that work."""
    return _undisturbed(subject, verb)
