"""Files of `judgegym select` in OpenRLHF's own data sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.datasets.select.scored import lines_file, scored_row, select
from tests.trainers.loops import trainers

ASKED = "<|im_start|>user\nQuestion 1?<|im_end|>\n<|im_start|>assistant\n"
GOOD, BAD = "good 1<|im_end|>\n", "bad<|im_end|>\n"
FILES = {
    "sft": ("sft.jsonl", ["--best"]),
    "sft texts": ("sft_texts.parquet", ["--best", "--conversational=false"]),
    "dpo": ("dpo.parquet", ["--pairs"]),
    "dpo texts": ("dpo_texts.jsonl", ["--pairs", "--conversational=false"]),
}


async def test_files_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    rows = [
        scored_row(
            {"prompt": f"Question {number}?", "responses": ["bad", f"good {number}"]}, [0.0, 1.0]
        )
        for number in range(3)
    ]
    scored = lines_file(tmp_path / "scored.jsonl", rows)
    for name, (file, words) in FILES.items():
        layout = f"--layout=openrlhf-{name.partition(' ')[0]}"
        ended = select(scored, "--out", tmp_path / file, "--card=none", layout, *words)
        assert ended.code == 0, ended.err
    files = {name: str(tmp_path / file) for name, (file, _) in FILES.items()}
    ended = await trainers.run("openrlhf", "data_sets.py", files)
    assert ended.code == 0, ended.err
    assert ended.result == {
        "sft": {"rows": 3, "prompt": ASKED, "response": GOOD},
        "sft texts": {"rows": 3, "prompt": "Question 1?", "response": "good 1"},
        "dpo": {"rows": 3, "prompt": ASKED, "chosen": GOOD, "rejected": BAD},
        "dpo texts": {"rows": 3, "prompt": "Question 1?", "chosen": "good 1", "rejected": "bad"},
    }
