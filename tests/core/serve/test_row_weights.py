"""`serve --env.row_weights=signal`: rows whose groups have equal rewards are drawn less often, also after a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judgegym.environments.training import serve as serving
from judgegym.environments.training.sampler import RowWeights
from judgegym.llm.errors import SettingsError
from judgegym.monitoring.live_file import MONITOR
from tests.arena import Arena, for_model
from tests.arena import judge as judging
from tests.serving import serve
from tests.trainer import training, until

SIGNAL = ("--env.row_weights=signal",)
EQUAL = judging(for_model)


def flat_rows(monitor: Path) -> set[str]:
    lines = (
        [json.loads(line) for line in monitor.read_bytes().splitlines()] if monitor.exists() else []
    )
    return {line["row"]["uid"] for line in lines if line.get("row", {}).get("equal")}


@pytest.mark.slow
async def test_rows_without_a_signal_are_recorded_logged_and_known_after_a_restart(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "_LONGEST_WITHOUT_LOG_S", 0.0)
    monkeypatch.setattr(
        RowWeights, "from_config", lambda config: RowWeights(flat_share=0.01, flat_after=1)
    )
    caplog.set_level("DEBUG")
    groups = arena.path / "groups.jsonl"
    flags = (*SIGNAL, f"--env.data_path_to_save_groups={groups}")
    monitor = arena.path / "groups.run" / MONITOR
    async with training(8) as trainer:
        async with serve(arena, trainer.url, *flags, judge=EQUAL) as served:
            await until(lambda: len(flat_rows(monitor)) == 8, "each row was drawn")
            await until(lambda: served.serving.metrics.flat_rows is not None, "it is logged")
            await until(
                lambda: (served.serving.metrics.flat_rows or (0, 0))[1] > 0, "rows are skipped"
            )
        async with serve(arena, trainer.url, *flags, "--resume", judge=EQUAL) as served:
            await until(lambda: served.serving.metrics.flat_rows is not None, "it is logged")
            assert served.serving.metrics.flat_rows == (8, served.serving.metrics.flat_rows[1])  # type: ignore[index]
            values = served.serving.metrics.flush(max_token_len=-1).values
            assert values["train/rows_without_signal"] == 8 and values["train/rows_skipped"] >= 0


async def test_groups_of_one_rollout_are_refused(arena: Arena) -> None:
    one = ("--env.group_size=1", "--env.ensure_scores_are_not_same=False")
    with pytest.raises(SettingsError, match=r"--env\.row_weights=signal: .*group_size of 2"):
        async with training(8) as trainer, serve(arena, trainer.url, *SIGNAL, *one):
            pass
