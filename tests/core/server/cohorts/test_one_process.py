"""A server whose judges gather responses runs one process, as far as it can tell."""

from __future__ import annotations

import pytest

from judgegym.llm.errors import SettingsError
from judgegym.server.workers import check_one_process, processes


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/venv/bin/uvicorn app:app --workers 4", 4),
        ("/lib/uvicorn/__main__.py app:app --workers=3 --port 1", 3),
        ("/venv/bin/gunicorn -k uvicorn.workers.UvicornWorker -w 2 app:app", 2),
        ("/venv/bin/gunicorn -w12 app:app", 12),
        ("/venv/bin/hypercorn app:app --workers", 1),
        ("/venv/bin/uvicorn app:app --workers many", 1),
        ("/venv/bin/uvicorn app:app --port 4", 1),
        ("train.py --workers 8", 1),  # those of a program's own
        ("", 1),
    ],
)
def test_processes_are_read_from_the_command_line_of_a_server(line: str, expected: int) -> None:
    assert processes(line.split(), {}) == expected


def test_command_line_comes_before_the_environment() -> None:
    assert processes(["serve.py"], {"WEB_CONCURRENCY": "3"}) == 3
    assert processes(["uvicorn", "--workers=1"], {"WEB_CONCURRENCY": "3"}) == 1


def test_process_that_nobody_has_started_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "3")
    monkeypatch.delenv("SERVER_SOFTWARE", raising=False)
    check_one_process(["pairs"])


def test_workers_of_our_own_command_are_refused_where_judges_gather() -> None:
    check_one_process([], 4)
    check_one_process(["pairs"], 1)
    with pytest.raises(
        SettingsError,
        match=r"^mounts.pairs.group_size: .* found 4 workers. Use --workers=1",
    ):
        check_one_process(["pairs"], 4)
