"""Files of `judgegym select` in TRL's trainers: loaded by its own code, and trained on for two steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.command import serving, write_lines
from tests.core.datasets.scoring import rated, score
from tests.core.datasets.select.scored import select
from tests.trainers.loops import trainers

SYSTEM = {"role": "system", "content": "Be brief."}
CHAT, END = "<|im_start|>", "<|im_end|>"


def asked(number: int, *, system: bool) -> list[dict[str, str]]:
    return [
        *([SYSTEM] if system and number % 2 else []),
        {"role": "user", "content": f"Question {number}?"},
    ]


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Two scored files, of which the first has prompts with a system turn."""
    folder, files = tmp_path_factory.mktemp("scored"), {}
    for name, count in (("messages", 6), ("texts", 3)):
        rows = [
            {
                "prompt": asked(number, system=name == "messages"),
                "responses": [f"{points} points, {number}" for points in (2, 5, 1)],
            }
            for number in range(count)
        ]
        data, files[name] = write_lines(folder / f"{name}.jsonl", rows), folder / f"{name}.parquet"
        with serving(rated(lambda response: int(response[0]))) as judge:
            ended = score(
                data,
                "--out",
                files[name],
                f"--judge_base_url={judge.base_url}",
                "--rubric=Is it right?",
            )
        assert ended.code == 0, ended.said
    return files


FILES = {
    "sft": ("SFT", "sft.jsonl", ["--best"]),
    "sft table": ("SFT", "sft.parquet", ["--top=2"]),
    "messages": ("SFT", "messages.parquet", ["--best", "--layout=trl-sft-messages"]),
    "dpo": ("DPO", "dpo.jsonl", ["--pairs", "--margin=0.5"]),
    "dpo table": ("DPO", "dpo.parquet", ["--pairs", "--pairs_per_prompt=all"]),
    "kto": ("KTO", "kto.jsonl", ["--threshold=0.5", "--layout=trl-kto"]),
    "sft texts": ("SFT", "sft_texts.jsonl", ["--best", "--conversational=false"]),
    "dpo texts": ("DPO", "dpo_texts.parquet", ["--pairs", "--conversational=false"]),
}


@pytest.mark.timeout(300)
async def test_files_are_loaded_and_trained_on(scored: Mapping[str, Path], tmp_path: Path) -> None:
    runs = {}
    for name, (trainer, file, words) in FILES.items():
        of = scored["texts" if "texts" in name else "messages"]
        ended = select(of, "--out", tmp_path / file, "--card=none", *words)
        assert ended.code == 0, ended.err
        runs[name] = {"trainer": trainer, "file": str(tmp_path / file)}
    done = await trainers.run("trl", "data_sets.py", str(tmp_path), runs, patience_s=280)
    assert done.code == 0, done.err
    assert {name: run["rows"] for name, run in done.result.items()} == {
        "sft": 6,
        "sft table": 12,
        "messages": 6,
        "dpo": 6,
        "dpo table": 18,
        "kto": 18,
        "sft texts": 3,
        "dpo texts": 3,
    }
    for name, run in done.result.items():
        assert (run["steps"], len(run["losses"]), run["learnt"]) == (2, 2, True), name
        assert all(math.isfinite(float(loss)) for loss in run["losses"]), name
    first = {name: run["first"] for name, run in done.result.items()}
    asked = f"{CHAT}user\nQuestion 0?{END}\n{CHAT}assistant\n"
    assert first["sft"]["labels"] == first["sft table"]["labels"] == f"5 points, 0{END}\n"
    assert (
        first["messages"]["input_ids"] == first["sft"]["input_ids"] == f"{asked}5 points, 0{END}\n"
    )
    for name, worse in (("dpo", "1 points, 0"), ("dpo table", "2 points, 0")):
        pair = {part: first[name][f"{part}_ids"] for part in ("prompt", "chosen", "rejected")}
        assert pair == {
            "prompt": asked,
            "chosen": f"5 points, 0{END}\n",
            "rejected": f"{worse}{END}\n",
        }
    assert (first["kto"]["completion_ids"], first["kto"]["label"]) == (f"2 points, 0{END}\n", False)
    assert first["sft texts"]["labels"] == f"5 points, 0{END}"
    assert first["dpo texts"]["chosen_ids"] == f"5 points, 0{END}"
