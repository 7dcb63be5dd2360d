from pathlib import Path

import pytest

from judgegym.environments.training import connection, rollout_api
from judgegym.environments.training import serve as serving
from tests.arena import Arena


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    """Eight rows."""
    return Arena(tmp_path).rows(8)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the rollout API for news, and a failing policy again, a hundred times a second; in this process only."""
    monkeypatch.setattr(connection, "_POLL_S", 0.01)
    monkeypatch.setattr(rollout_api, "_PAUSE_S", 0.002)
    monkeypatch.setattr(serving, "_AFTER_FAILURE_S", 0.01)
