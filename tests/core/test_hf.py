"""`judgegym.hf.score` in the real `datasets.map`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest

import judgegym.hf
from judgegym.llm.errors import SettingsError
from tests.command import serving
from tests.core.datasets.scoring import rated
from tests.forking import ROOT
from tests.scripted import Reply, ScriptedEndpoint

ROWS = [{"prompt": f"Question {n}", "response": f"{n % 5 + 1} points"} for n in range(24)]
SCORES = [(n % 5) / 4 for n in range(24)]


@pytest.fixture
def judge() -> Iterator[ScriptedEndpoint]:
    def rating(response: str) -> int | Reply:
        points = int(response.split()[0])
        return points if points < 9 else Reply(status=400, body={"error": {"message": "no"}})

    with serving(rated(rating)) as endpoint:
        yield endpoint


@pytest.fixture
def rows(tmp_path: Path) -> datasets.Dataset:
    """On disk, as `datasets` caches only what is."""
    datasets.Dataset.from_list(ROWS).save_to_disk(str(tmp_path / "rows"))
    return datasets.load_from_disk(str(tmp_path / "rows"))


def scorer(endpoint: ScriptedEndpoint, **settings: Any) -> judgegym.hf.score:
    return judgegym.hf.score(judge_base_url=endpoint.base_url, **settings)


@pytest.mark.slow
def test_each_row_gets_its_score_and_equal_settings_come_from_the_cache(
    judge: ScriptedEndpoint, rows: datasets.Dataset
) -> None:
    scored = rows.map(scorer(judge, judge="rubric"), batched=True, batch_size=5)
    assert scored["judge/score"][:] == SCORES
    assert scored.features["judge/detail"] == datasets.Value("string")
    asked = len(judge.requests)
    again = rows.map(scorer(judge, judge="rubric"), batched=True, batch_size=5)
    assert (again["judge/score"][:], len(judge.requests)) == (SCORES, asked)
    rows.map(scorer(judge, judge="rubric", rubric="Is it short?"), batched=True, batch_size=5)
    assert len(judge.requests) == asked + len(ROWS)


@pytest.mark.slow
def test_a_first_batch_of_failures_has_the_columns_types(judge: ScriptedEndpoint) -> None:
    rows = datasets.Dataset.from_list([{"prompt": "p", "response": "9 points"}, *ROWS])
    scored = rows.map(scorer(judge), batched=True, batch_size=1)
    assert scored["judge/score"][:3] == [None, 0.0, 0.25]
    streamed = rows.to_iterable_dataset().map(scorer(judge), batched=True, batch_size=5)
    assert [row["judge/score"] for row in streamed] == [None, *SCORES]


IN_PROCESSES = """
import sys

import datasets
import judgegym.hf

rows = datasets.load_from_disk(sys.argv[1])
given = {"judge_base_url": sys.argv[2], "judge_max_concurrency": 6}
used = judgegym.hf.score(num_proc=2, **given)
used({"prompt": ["p"], "response": ["used before the processes are forked"]})
print(rows.map(used, batched=True, batch_size=12, num_proc=2)["judge/score"][:])
try:
    rows.map(judgegym.hf.score(**given), batched=True, num_proc=2)
except Exception as error:
    print(error)
"""


@pytest.mark.slow
def test_several_processes_share_the_limits(tmp_path: Path, rows: datasets.Dataset) -> None:
    """In a process of its own: `datasets` forks, and this one has the threads and the signal handlers of its tests."""
    with serving(lambda request, number: Reply("[FEEDBACK] x [SCORE] 3", delay_s=0.1)) as judge:
        command = [sys.executable, "-c", IN_PROCESSES, str(tmp_path / "rows"), judge.base_url]
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
        )
        scores, said, *_ = ended.stdout.splitlines()
        assert scores == str([0.5] * len(ROWS))
        assert said.startswith("num_proc: ") and "several processes" in said
        assert judge.peak <= 6


def test_a_row_alone_is_no_batch(judge: ScriptedEndpoint, rows: datasets.Dataset) -> None:
    with pytest.raises(SettingsError, match="batched=True"):
        rows.map(scorer(judge))
