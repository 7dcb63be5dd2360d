"""Each environment in turn, and what it does when nobody disturbs it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from judgegym.offline import StandIn
from tests.command import PATIENCE_S
from tests.conformance.lab import Lab, Undisturbed, opened
from tests.conformance.subjects import SUBJECTS, TOGETHER, Subject


@pytest.fixture(scope="session")
def stand_in_url() -> Iterator[str]:
    """A stand-in server for all tests."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="stand-in", daemon=True)
    thread.start()
    stand_in = StandIn(
        prompts=[prompt for subject in SUBJECTS for prompt in subject.env_type.spec.offline_prompts]
    )
    asyncio.run_coroutine_threadsafe(stand_in.__aenter__(), loop).result(PATIENCE_S)
    try:
        yield stand_in.base_url
    finally:
        asyncio.run_coroutine_threadsafe(stand_in.__aexit__(None, None, None), loop).result(
            PATIENCE_S
        )
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


@pytest.fixture(params=SUBJECTS, ids=lambda subject: subject.title)
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each environment in each of its roles."""
    found: Subject = request.param
    return found


@pytest.fixture(params=[*SUBJECTS, *TOGETHER], ids=lambda subject: subject.title)
def trained(request: pytest.FixtureRequest) -> Subject:
    """The same, and those that judge groups together, for what training promises."""
    found: Subject = request.param
    return found


@pytest.fixture
def lab(subject: Subject, tmp_path: Path, stand_in_url: str) -> Iterator[Lab]:
    """The subject's rows and endpoints."""
    with opened(subject, tmp_path, stand_in_url) as lab:
        yield lab


@pytest.fixture(scope="session")
def _run_undisturbed(
    tmp_path_factory: pytest.TempPathFactory, stand_in_url: str
) -> Callable[[Subject], Undisturbed]:
    @cache
    def run(subject: Subject) -> Undisturbed:
        with opened(subject, tmp_path_factory.mktemp("undisturbed"), stand_in_url) as lab:
            return Undisturbed(lab.finished(), lab.policy.answered, lab.judge.answered)

    return run


@pytest.fixture
def undisturbed(
    subject: Subject, _run_undisturbed: Callable[[Subject], Undisturbed]
) -> Undisturbed:
    """The subject's run with endpoints that work."""
    return _run_undisturbed(subject)
