"""A judge that fails is never a number: it is counted, listed, left out of the mean, and said."""

from __future__ import annotations

import re
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
        (
            error(500, "the judge is being repaired"),
            "broken HTTP 500 after 1 request; last answer: the judge is",
        ),
        (Reply(text=""), "broken HTTP 200 after 1 request; last answer: empty content"),
        (error(500, "engine.py:100: out of memory"), "engine.py:100: out of memory"),
        (error(500, "[red]no[/red] [bold]markup"), "[red]no[/red] [bold]markup"),
    ],
    ids=["500", "empty", "text like an emoji", "text like markup"],
)
def test_a_judge_that_is_down_ends_the_evaluation(
    arena: Arena, reply: Reply, expected: str
) -> None:
    run = arena.evaluate(*ONCE, *WITH_KEY, judge_script=reply, env=KEYS)
    assert run.code == 1
    assert f"{run.judge.base_url}: " in run.ended.err
    assert expected in run.ended.err
    no_number_was_made_up(run.ended, run.files)
    assert {failure["uid"] for failure in run.files.failures} == {
        f"row-{number}" for number in range(6)
    }
    assert {(failure["status"], failure["score"]) for failure in run.files.failures} == {
        ("judge_failed", None)
    }


def failing(rows: set[str], how: Callable[[Json], Reply | str]) -> Script:
    """A judge that favours the model but fails at these rows."""
    sound = judge(for_model)
    return lambda request, number: (
        how(request) if uid_of(request) in rows else sound(request, number)
    )  # type: ignore[return-value]


def refuses(request: Json) -> Reply:
    return Reply(body=completion("", refusal="I cannot judge this.", finish_reason="stop"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        (refuses, "unparsable", "I cannot judge this."),
        (lambda request: error(400, "too long for me"), "judge_failed", "too long for me"),
        (
            lambda request: "[[A>B]]" if model_is_a(request) else "No idea.",
            "unparsable",
            "model_is_b: ",
        ),
    ],
    ids=["refusal", "rejected", "one game without verdict"],
)
def test_rows_without_a_judgment(
    arena: Arena, how: Callable[[Json], Reply | str], status: str, words: str
) -> None:
    failed = {"row-3", "row-7"}
    run = arena.rows(10).evaluate(*ONCE, "--env.judge_reask=0", judge_script=failing(failed, how))
    assert run.code == 1, "20 % is above the default of 5 %"
    found = run.files.metrics
    assert (found["judge_error_rate"], found[f"{status}_count"]) == (0.2, 2)
    assert (found["total_samples"], found["selected_rows"]) == (8, 10)
    assert (found["overall_winrate"], found["win_count"], found["loss_count"]) == (1.0, 8, 0)
    assert {failure["uid"] for failure in run.files.failures} == failed
    for failure in run.files.failures:
        assert (failure["status"], failure["score"], failure["label"]) == (status, None, None)
        assert words in failure["error"]
        assert failure["model_answer"] == f"ANSWER of the model to {failure['uid']}"
        assert len(failure["detail"]["games"]) == 2
    assert re.search(rf"2 of 10 rows .*\(2 {status}\)", run.ended.out)
    assert re.search(r"20\.0 % .*no judgment", run.ended.err)
