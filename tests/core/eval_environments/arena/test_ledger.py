"""What a run keeps of its calls without `keep_calls`, and a run that has kept none."""

from __future__ import annotations

import pytest

from tests.arena import Arena, for_model, judge, uid_of
from tests.command import RunFiles
from tests.scripted import Json, Reply


def names(files: RunFiles) -> set[str]:
    return {path.name for path in files.path.iterdir() if "calls" in path.name}


def test_without_keep_calls_nothing_of_them_is_left(arena: Arena) -> None:
    run = arena.evaluate("--keep_calls=False")
    assert run.code == 0, run.said
    assert names(run.files) == set()


@pytest.mark.slow
def test_without_keep_calls_failed_rows_still_have_their_answers(arena: Arena) -> None:
    sound = judge(for_model)

    def script(request: Json, number: int) -> Reply | str:
        return Reply(status=400) if uid_of(request) == "row-2" else sound(request, number)  # type: ignore[return-value]

    flags = "--keep_calls=False", "--env.max_judge_error_rate=1"
    first = arena.evaluate(*flags, judge_script=script)
    assert names(first.files) == {"calls.jsonl"}
    assert "Assistant A" not in (first.files.path / "calls.jsonl").read_text()
    again = arena.evaluate(*flags, "--resume")
    assert again.code == 0, again.said
    assert again.policy.requests == []
    assert {uid_of(body) for body in again.judge.bodies} == {"row-2"}
    assert names(again.files) == set()


@pytest.mark.slow
def test_a_run_of_an_earlier_version_is_resumed(arena: Arena) -> None:
    """It has no ledger: its finished rows stay, the others are asked for anew."""
    run = arena.evaluate()
    (run.files.path / "calls.jsonl.gz").unlink()
    samples = run.files.path / "samples.jsonl"
    samples.write_bytes(b"".join(samples.read_bytes().splitlines(keepends=True)[:4]))
    again = arena.evaluate("--resume")
    assert again.code == 0, again.said
    assert len(again.policy.requests) == 2
    assert len(again.files.samples) == 6
