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
def test_answers_from_a_file_are_needed_for_the_chosen_rows_only(arena: Arena) -> None:
    uids = set(chosen(arena, "--limit=2", run="first"))
    answers = write_lines(
        arena.path / "mine.jsonl", [{"uid": uid, "answer": f"my answer to {uid}"} for uid in uids]
    )
    assert set(chosen(arena, "--limit=2", f"--env.model_answers={answers}", run="second")) == uids
