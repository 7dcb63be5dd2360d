"""A rule that is a function of the user's own and forks: each response has its own score, and the limit holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym import RuleJudge, Status

WAYS = """
import os, signal, sys, time

def worth(response):
    return int(response.split()[-1]) / 100

def forks(response):
    return int(response.split()[-1]) % 3 == 0

def both_return(response):
    if forks(response):
        os.fork()
    return worth(response)

def child_raises(response):
    if forks(response) and os.fork() == 0:
        raise RuntimeError("of the child")
    return worth(response)

def child_leaves(response):
    if forks(response) and os.fork() == 0:
        sys.exit(3)
    return worth(response)

def sandbox(response):
    if forks(response):
        child = os.fork()
        if child == 0:
            raise RuntimeError("of the sandbox")
        os.waitpid(child, 0)
    return worth(response)

def parent_ends(response):
    if forks(response) and os.fork():
        os._exit(5)
    return worth(response)

def child_hangs(response):
    if forks(response):
        child = os.fork()
        if child == 0:
            time.sleep(1000)
        os.waitpid(child, 0)
    return worth(response)
"""
ROWS = 60


def scores(path: Path, way: str, *, rows: int, limit_s: float) -> list[tuple[float | None, str]]:
    """The score and the explanation of each response, whose score is its number."""
    file = path / "ways.py"
    file.write_text(WAYS)
    with RuleJudge(rule=f"{file}:{way}", rule_timeout=limit_s) as judge:
        table = judge.many_sync(
            [{"question": "Q", "answer": f"number {number}"} for number in range(rows)],
            progress=False,
        )
    assert all((judgment.score is None) == (judgment.status is not Status.OK) for judgment in table)
    return [(judgment.score, judgment.explanation) for judgment in table]


@pytest.mark.parametrize("way", ["both_return", "child_raises", "child_leaves", "sandbox"])
def test_each_response_has_its_own_score(way: str, tmp_path: Path) -> None:
    found = scores(tmp_path, way, rows=ROWS, limit_s=30)
    assert [score for score, _ in found] == [number / 100 for number in range(ROWS)], found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "limit_s", "why"),
    [("parent_ends", 30, "process has died"), ("child_hangs", 0.2, "timeout after 0.2 s")],
)
def test_a_function_that_does_not_end_has_no_score_and_the_others_have_theirs(
    way: str, limit_s: float, why: str, tmp_path: Path
) -> None:
    for number, (score, explanation) in enumerate(scores(tmp_path, way, rows=12, limit_s=limit_s)):
        if number % 3:
            assert score == number / 100, explanation
        else:
            assert score is None
            assert why in explanation
