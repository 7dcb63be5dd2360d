"""Each reward of `examples/rewards` scores a row that is as its first lines say, in at most 40 lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import ROOT, write_lines
from tests.core.datasets.scoring import read_rows, score

REWARDS = sorted((ROOT / "examples" / "rewards").glob("*.yaml"))
OPTIMIZER = "```python\nclass Fast(torch.optim.Optimizer):\n    ...\n```"
ROW = {"prompt": "How much is 6 * 7?", "reference": "42", "context": "Sums of the day."}


@pytest.mark.parametrize("path", REWARDS, ids=lambda path: path.stem)
def test_reward_scores_its_rows(tmp_path: Path, path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 40
    rows = [
        {**ROW, "response": response} for response in ("6 * 7 is 42.", f"I tried 41.\n{OPTIMIZER}")
    ]
    out = tmp_path / "scored.jsonl"
    ended = score(
        write_lines(tmp_path / "rows.jsonl", rows), "--out", out, "--config", path, "--offline"
    )
    assert ended.code == 0, ended.said
    scores = [row["judge/score"] for row in read_rows(out)]
    assert all(isinstance(each, float) and 0 <= each <= 1 for each in scores)
    if path.stem == "math_with_preference":
        assert scores[1] == 0, "the result is wrong"
    if path.stem == "pytorch_optimizer":
        assert scores[0] == 0, "there is no code"
