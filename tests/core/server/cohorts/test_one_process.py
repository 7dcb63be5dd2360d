"""A server that keeps cohorts, a budget or monitors runs one process, as far as it can tell."""

from __future__ import annotations

from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from judgegym.server.settings import RewardServerSettings
from judgegym.server.workers import count_processes, count_server_processes


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
    assert count_processes(line.split(), {}) == expected


def test_command_line_comes_before_the_environment() -> None:
    assert count_processes(["serve.py"], {"WEB_CONCURRENCY": "3"}) == 3
    assert count_processes(["uvicorn", "--workers=1"], {"WEB_CONCURRENCY": "3"}) == 1


@pytest.mark.parametrize("setting", ["budget_calls", "run_dir", "group_size", "safety.group_size"])
def test_what_one_process_keeps_is_refused_with_several(setting: str) -> None:
    values: dict[str, Any] = {
        "budget_calls": {"budget_calls": 1},
        "run_dir": {"run_dir": "run"},
        "group_size": {"judge": "listwise", "group_size": 4},
        "safety.group_size": {"mounts": {"safety": {"judge": "choice", "group_size": 2}}},
    }
    settings = RewardServerSettings(**values[setting])
    settings.check_processes(1)
    for count, unit in ((4, "worker"), (2, "replica")):
        with pytest.raises(SettingsError) as refused:
            settings.check_processes(count, unit, f"{unit}s")
        message = str(refused.value)
        assert message.partition(":")[0].endswith(setting)
        assert f"needs one {unit}, " in message and "3,000 requests" in message
        assert f"found {count} {unit}s" in message and f"Use {unit}s=1" in message
    RewardServerSettings().check_processes(4)


def test_process_that_nobody_has_started_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "3")
    monkeypatch.delenv("SERVER_SOFTWARE", raising=False)
    assert count_server_processes() == 1
