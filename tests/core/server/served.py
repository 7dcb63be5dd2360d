"""The reward server as a process, as a user starts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from signal import SIGTERM

from tests.command import PATIENCE_S, ROOT, Ended, Started, clean_environment
from tests.forking import Forked

MODULE = ("-m", "judgegym.server")


@contextmanager
def started(*flags: str, port: int = 0) -> Iterator[tuple[Forked, str]]:
    """A server on a free port, and its URL; it is gone at the end of the context."""
    words = [*MODULE, f"--port={port}", *flags]
    process = Forked(words, cwd=ROOT, env=clean_environment(), kept=("out",))
    try:
        yield process, process.first_line(PATIENCE_S).split()[-1]
    finally:
        process.kill()
        process.communicate()
        process.close()


@contextmanager
def as_process(*flags: str) -> Iterator[str]:
    """The URL of a server that runs for as long as the context lasts; it must end with 0."""
    with started(*flags) as (process, url):
        yield url
        process.send_signal(SIGTERM)
        process.communicate(PATIENCE_S)
        assert process.returncode == 0


def run(*flags: str, env: Mapping[str, str] | None = None) -> Ended:
    """The command, run to its end."""
    with Started(*MODULE, *flags, cwd=ROOT, env=env) as process:
        return process.ended()
