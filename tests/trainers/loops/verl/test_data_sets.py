"""Files of `judgegym select` in verl's own data sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.datasets.select.scored import scored_row, select, table_file
from tests.trainers.loops import trainers

SYSTEM = {"role": "system", "content": "Be brief."}
ASKED = [SYSTEM, {"role": "user", "content": "Question 1?"}]


async def test_files_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    prompts = [[SYSTEM, {"role": "user", "content": f"Question {number}?"}] for number in range(3)]
    rows = [
        scored_row({"prompt": prompt, "responses": ["bad", f"good {number}"]}, [0.0, 1.0])
        for number, prompt in enumerate(prompts)
    ]
    scored = table_file(tmp_path / "scored.parquet", rows)
    files = {"verl-sft": tmp_path / "sft.parquet", "verl-rl": tmp_path / "rl.parquet"}
    for layout, file in files.items():
        source = ["--data_source=ours"] if layout == "verl-rl" else []
        ended = select(
            scored, "--out", file, "--best", "--card=none", f"--layout={layout}", *source
        )
        assert ended.code == 0, ended.err
    ended = await trainers.run(
        "verl", "data_sets.py", *map(str, files.values()), str(tmp_path / "cache")
    )
    assert ended.code == 0, ended.err
    result = ended.result
    assert (result["sft"], result["rl"]) == (3, 3)
    assert result["text"].startswith(
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nQuestion 1?<|im_end|>"
    )
    assert result["trained"] == "good 1<|im_end|>\n"
    row = result["row"]
    assert row["raw_prompt"] == ASKED
    assert row["data_source"] == "ours"
    assert row["reward_model"]["ground_truth"] == "good 1"
    assert (row["extra_info"]["prompt"], row["index"]) == (ASKED, 1)
