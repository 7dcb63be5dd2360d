"""Each test begins as a process does: it knows no kind of judge that is not built in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.doors.judges import DoorJudge, forget_kinds


@pytest.fixture(autouse=True)
def _as_in_a_new_process(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    forget_kinds()
    judge = getattr(getattr(request.node, "callspec", None), "params", {}).get("judge")
    if isinstance(judge, DoorJudge) and judge.is_installed:
        monkeypatch.syspath_prepend(tmp_path / "judge")
    yield
    forget_kinds()
