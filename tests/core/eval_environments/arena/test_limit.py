"""`--limit` takes rows by the seed and their ids, never by where they stand in the file."""

from __future__ import annotations

import random

import pytest

from tests.arena import Arena
from tests.command import write_lines


def chosen(arena: Arena, *flags: str, run: str) -> list[str]:
    evaluated = arena.evaluate(*flags, run=run)
    assert evaluated.code == 0, evaluated.said
    return [sample["uid"] for sample in evaluated.files.samples]


@pytest.mark.slow
def test_the_same_rows_for_the_same_seed_whatever_the_order_of_the_file(arena: Arena) -> None:
    arena.rows(40)
    first = chosen(arena, "--limit=8", run="first")
    prompts = arena.path / "prompts.jsonl"
    lines = prompts.read_text().splitlines(keepends=True)
    random.Random(3).shuffle(lines)
    prompts.write_text("".join(lines))
    shuffled = chosen(arena, "--limit=8", run="shuffled")
    assert len(first) == 8
    assert set(shuffled) == set(first)
    assert shuffled != first, "they stand in the order of the file"
    lines_at = {uid: at for at, line in enumerate(lines) for uid in shuffled if f'"{uid}"' in line}
    assert shuffled == sorted(shuffled, key=lines_at.__getitem__)


@pytest.mark.slow
def test_a_further_row_hardly_changes_the_choice(arena: Arena) -> None:
    first = chosen(arena.rows(40), "--limit=8", run="first")
    more = chosen(arena.rows(41), "--limit=8", run="more")
    assert len(set(first) - set(more)) <= 1


@pytest.mark.slow
def test_another_seed_takes_other_rows(arena: Arena) -> None:
    arena.rows(40)
    chosen_by_seed = {seed: set(chosen(arena, "--limit=8", f"--env.seed={seed}", run=f"s{seed}")) for seed in range(3)}
    assert chosen_by_seed[0] != chosen_by_seed[1] != chosen_by_seed[2] != chosen_by_seed[0]


@pytest.mark.slow
def test_the_first_of_more_are_the_same(arena: Arena) -> None:
    """A larger limit adds rows and takes none away, so that numbers of the two can be compared."""
    arena.rows(40)
    few = set(chosen(arena, "--limit=4", run="few"))
    assert few < set(chosen(arena, "--limit=9", run="more"))


def test_a_limit_beyond_the_rows_is_all_of_them(arena: Arena) -> None:
    assert chosen(arena, "--limit=100", run="all") == [f"row-{number}" for number in range(6)]


@pytest.mark.slow
def test_answers_from_a_file_are_needed_for_the_chosen_rows_only(arena: Arena) -> None:
    uids = set(chosen(arena, "--limit=2", run="first"))
    answers = write_lines(arena.path / "mine.jsonl", [{"uid": uid, "answer": f"my answer to {uid}"} for uid in uids])
    assert set(chosen(arena, "--limit=2", f"--env.model_answers={answers}", run="second")) == uids
