"""What examples start is neither told a user's settings nor asked by way of a proxy."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from examples.real_model.commands import run_to_end
from examples.rollout_api import RolloutApi, RolloutApiTimeout
from tests.trainer import shared_run_api


def test_settings_in_variables_of_the_user_do_not_reach_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGEGYM_ENV__JUDGE_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OTHER", "kept")
    code = (
        "import os, sys; sys.exit('JUDGEGYM_ENV__JUDGE_BASE_URL' in os.environ or 'OTHER' not in "
        "os.environ)"
    )
    assert run_to_end([sys.executable, "-c", code], tmp_path / "log") == 0


async def test_rollout_api_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    api = RolloutApi((await shared_run_api()).url)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    await asyncio.to_thread(lambda: api.register(batch_size=8, max_tokens=32, steps=1))
    assert api.queued() == 0
    with pytest.raises(RolloutApiTimeout, match="a batch of the rollout API did not come"):
        api.next_batch(60.0, unless=lambda: True)
