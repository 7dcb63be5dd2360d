"""Peer evaluation without keys and without a network: stand-ins that answer, judge and critique."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import RunFiles
from tests.peers import Evaluated, peer


def offline(path: Path, *flags: str) -> Evaluated:
    return Evaluated(peer("evaluate", "--offline", f"--env.data_dir_to_save_evals={path}", *flags), RunFiles(path))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    return offline(tmp_path_factory.mktemp("offline") / "run")


@pytest.mark.slow
def test_it_prints_table_ranking_and_agreement(ran: Evaluated) -> None:
    assert ran.code == 0, ran.said
    assert "offline stand-in" in ran.said
    for title in ("Scores ahead of the critique", "Scores after round 1", "Ranking"):
        assert title in ran.ended.out
    assert "agreement (α)" in ran.said
    assert "8 queries: 24 answers, 48 judgments and up to 48 critiques: up to 120 calls" in ran.said
    header, *rows = ran.table(1)
    assert len(header) == 4
    assert [row[1 + number] for number, row in enumerate(rows)] == ["", "", ""]
    assert all(0 <= float(cell) <= 100 for row in rows for cell in row[1:] if cell)
    assert [row[0][:2] for row in ran.ranking] == ["1.", "2.", "3."]


def test_all_cells_have_scores_and_rounds(ran: Evaluated) -> None:
    assert (ran.metrics["missing_cells"], ran.metrics["critique_failed_round_rate"]) == (0, 0)
    assert ran.metrics["total_samples"] == 8
    assert len(ran.history) == 48
    assert {each["status"] for each in ran.history} <= {"revised", "unchanged"}
    assert len({each["before_score"] for each in ran.history}) > 3, "the stand-in looks at what it judges"
    assert -1 <= ran.metrics["krippendorff_alpha"] <= 1


@pytest.mark.slow
def test_with_the_diagonal_there_is_self_preference(tmp_path: Path) -> None:
    ended = offline(tmp_path / "run", "--env.include_self=True", "--limit=2", "--env.critique_rounds=0")
    assert ended.code == 0, ended.said
    assert sum(name.startswith("self_preference_") for name in ended.metrics) == 3
    assert all(cell for row in ended.table(0) for cell in row)


@pytest.mark.slow
def test_it_resumes_offline(tmp_path: Path) -> None:
    """Stand-ins have another port in each run, which is no other configuration."""
    first = offline(tmp_path / "run", "--limit=2")
    samples = (first.files.path / "samples.jsonl").read_bytes()
    again = offline(tmp_path / "run", "--limit=2", "--resume")
    assert again.code == 0, again.said
    assert (again.files.path / "samples.jsonl").read_bytes() == samples
