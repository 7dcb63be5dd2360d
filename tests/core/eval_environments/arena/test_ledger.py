"""What a run keeps of its calls: what policy and judge were asked, and what they said."""

from __future__ import annotations

from collections import Counter

import pytest

from judgegym.engine.runs.recorded_calls import read_calls
from tests.arena import Arena, for_model, judge, uid_of
from tests.command import RunFiles
from tests.scripted import Json, Reply


def names(files: RunFiles) -> set[str]:
    return {path.name for path in files.path.iterdir() if "calls" in path.name}


@pytest.mark.slow
def test_the_ledger_shows_what_was_asked_and_said(arena: Arena) -> None:
    run = arena.evaluate()
    assert run.code == 0, run.said
    calls = list(read_calls(run.files.path))
    assert Counter(call.component for call in calls) == {"conversation_0/policy": 6, "game_1": 6, "game_2": 6}
    asked = sorted(str(list(call.messages or ())) for call in calls)
    assert asked == sorted(str(body["messages"]) for body in (*run.policy.bodies, *run.judge.bodies))
    texts = {(call.row, call.component): call.answer.first.text for call in calls}
    for sample in run.files.samples:
        assert texts[sample["uid"], "conversation_0/policy"] == sample["model_answer"]
        for number, game in enumerate(sample["detail"]["games"], start=1):
            assert texts[sample["uid"], f"game_{number}"] == game["text"]


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
def test_a_finished_run_is_resumed_without_touching_its_ledger(arena: Arena) -> None:
    path = arena.evaluate().files.path / "calls.jsonl.gz"
    before = path.stat()
    assert arena.evaluate("--resume").code == 0
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--keep_calls=False",)])
def test_a_run_of_an_earlier_version_is_resumed(arena: Arena, flags: tuple[str, ...]) -> None:
    """It has no ledger: its finished rows stay, the others are asked for anew."""
    run = arena.evaluate()
    (run.files.path / "calls.jsonl.gz").unlink()
    samples = run.files.path / "samples.jsonl"
    samples.write_bytes(b"".join(samples.read_bytes().splitlines(keepends=True)[:4]))
    again = arena.evaluate("--resume", *flags)
    assert again.code == 0, again.said
    assert len(again.policy.requests) == 2
    assert len(again.files.samples) == 6
