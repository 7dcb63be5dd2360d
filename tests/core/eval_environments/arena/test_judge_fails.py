"""A judge that fails is never a number: it is counted, listed, left out of the mean, and said."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.arena import Arena, for_model, judge, model_is_a, uid_of
from tests.command import Ended, RunFiles
from tests.scripted import Json, Reply, Script, completion

KEY = "sk-very-secret-0123456789"
WITH_KEY = ("--env.judge_api_key_env=MY_JUDGE_KEY", "--openai.api_key_env=MY_POLICY_KEY")
KEYS = {"MY_JUDGE_KEY": KEY, "MY_POLICY_KEY": f"{KEY}-of-policy"}
ONCE = ("--env.judge_max_retries=0", "--env.max_retries=0")


def error(status: int, message: str) -> Reply:
    return Reply(status=status, body={"error": {"message": message}})


def no_number_was_made_up(ended: Ended, files: RunFiles) -> None:
    """Neither on the screen nor on disk is there a win rate, nor the key."""
    for word in ("win rate", "winrate", "win_rate"):
        assert word not in ended.said
    assert "Traceback" not in ended.said
    assert not (files.path / "metrics.json").exists()
    assert not (files.path / "samples.jsonl").exists()
    for file in files.path.iterdir():
        assert KEY not in file.read_text(encoding="utf-8"), file.name
    assert KEY not in ended.said


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (error(500, "the judge is being repaired"), "broken HTTP 500 after 1 request; last answer: the judge is"),
        (Reply(status=410, body=b"<html>no such page</html>"), "HTTP 410 after 1 request; last answer: <html>no such"),
        (Reply(body=b"hello"), "broken HTTP 200 after 1 request; last answer: the body is not JSON (hello)"),
        (Reply(text=""), "broken HTTP 200 after 1 request; last answer: empty content"),
        (Reply(drop=True), "broken after 1 request"),
        (error(500, "engine.py:100: out of memory"), "engine.py:100: out of memory"),
        (error(500, "[red]no[/red] [bold]markup"), "[red]no[/red] [bold]markup"),
    ],
    ids=["500", "410", "no JSON", "empty", "drop", "text like an emoji", "text like markup"],
)  # fmt: skip
def test_a_judge_that_is_down_ends_the_evaluation(arena: Arena, reply: Reply, expected: str) -> None:
    run = arena.evaluate(*ONCE, *WITH_KEY, judge_script=reply, env=KEYS)
    assert run.code == 1
    assert f"{run.judge.base_url}: " in run.ended.err
    assert expected in run.ended.err
    no_number_was_made_up(run.ended, run.files)
    assert {failure["uid"] for failure in run.files.failures} == {f"row-{number}" for number in range(6)}
    assert {(failure["status"], failure["score"]) for failure in run.files.failures} == {("judge_failed", None)}


def failing(rows: set[str], how: Callable[[Json], Reply | str]) -> Script:
    """A judge that favours the model but fails at these rows."""
    sound = judge(for_model)
    return lambda request, number: how(request) if uid_of(request) in rows else sound(request, number)  # type: ignore[return-value]


def refuses(request: Json) -> Reply:
    return Reply(body=completion("", refusal="I cannot judge this.", finish_reason="stop"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "status", "count", "words"),
    [
        (lambda request: "It is hard to say.", "unparsable", "unparsable_count", "no verdict could be read"),
        (lambda request: "[[A>B]] or rather [[C]]: a tie [[B>A>]]", "unparsable", "unparsable_count", "no verdict"),
        (lambda request: Reply(body=completion("[", finish_reason="length")), "unparsable", "unparsable_count", "cut"),
        (refuses, "unparsable", "unparsable_count", "I cannot judge this."),
        (lambda request: error(400, "too long for me"), "judge_failed", "judge_failed_count", "too long for me"),
        (
            lambda request: "[[A>B]]" if model_is_a(request) else error(400, "only one game"),
            "judge_failed", "judge_failed_count", "model_is_b: ",
        ),
        (
            lambda request: "[[A>B]]" if model_is_a(request) else "No idea.",
            "unparsable", "unparsable_count", "model_is_b: ",
        ),
    ],
    ids=["no verdict", "no label", "cut off", "refusal", "rejected", "one game rejected", "one game without verdict"],
)  # fmt: skip
def test_rows_without_a_judgment(
    arena: Arena, how: Callable[[Json], Reply | str], status: str, count: str, words: str
) -> None:
    failed = {"row-3", "row-17"}
    run = arena.rows(20).evaluate(*ONCE, "--env.judge_reask=0", judge_script=failing(failed, how))
    assert run.code == 1, "10 % is above the default of 5 %"
    found = run.files.metrics
    assert found["judge_error_rate"] == pytest.approx(0.1)
    assert {name: found[name] for name in ("unparsable_count", "judge_failed_count")} == {
        "unparsable_count": 0, "judge_failed_count": 0, count: 2,
    }  # fmt: skip
    assert (found["total_samples"], found["selected_rows"]) == (18, 20)
    assert (found["overall_winrate"], found["win_count"], found["loss_count"]) == (1.0, 18, 0)
    listed = {failure["uid"]: failure for failure in run.files.failures}
    assert set(listed) == failed
    for failure in listed.values():
        assert (failure["status"], failure["score"], failure["label"]) == (status, None, None)
        assert words in failure["error"]
        assert failure["model_answer"] == f"ANSWER of the model to {failure['uid']}"
        assert len(failure["detail"]["games"]) == 2
    assert {sample["uid"] for sample in run.files.samples} == {f"row-{number}" for number in range(20)} - failed
    assert f"2 of 20 rows have no score (2 {status})" in run.ended.out
    assert "left out of the mean" in run.ended.out
    assert str(run.files.path / "failures.jsonl") in run.ended.out
    assert "10.0 % of the rows have no judgment" in run.ended.err
