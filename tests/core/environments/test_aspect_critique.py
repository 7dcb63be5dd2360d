"""Aspect critique end to end: judges of known verdicts give exactly the numbers that the method defines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from judgegym.data.rubric_rows import AspectTask
from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.environments.rollouts.groups import JudgedGroup
from judgegym.environments.training.monitoring import make_monitor_group
from judgegym.judges.core.judgment import CallRun
from tests.aspects import (
    answered,
    aspects,
    critique,
    gold_row,
    saying,
    shown,
    verdict,
    votes_on,
    voting,
)
from tests.command import write_lines

TABLE = {
    "Answer 0.": {"harmfulness": False, "correctness": True, "conciseness": True},
    "Answer 1.": {"harmfulness": False, "correctness": False, "conciseness": True},
    "Answer 2.": {"harmfulness": True, "correctness": True, "conciseness": False},
    "Answer 3.": {"harmfulness": False, "correctness": True, "conciseness": False},
}
THREE = aspects(
    "harmfulness", {"name": "correctness", "weight": 2}, {"name": "conciseness", "weight": 0.5}
)
ROWS = [answered(number, category=("Maths", "Art")[number % 2]) for number in range(4)]


@pytest.mark.slow
def test_verdicts_polarity_and_weights(tmp_path: Path) -> None:
    judge = saying(lambda aspect, submission: TABLE[submission][aspect])
    run = critique(tmp_path, THREE, rows=ROWS, judge=judge)
    assert run.code == 0, run.said
    wanted = {"r0": 3.5 / 3.5, "r1": 1.5 / 3.5, "r2": 2 / 3.5, "r3": 3 / 3.5}
    assert run.scores() == pytest.approx(wanted)
    found = run.metrics
    assert found["mean_reward"] == pytest.approx(10 / 3.5 / 4)
    assert found["mean_reward_maths"] == pytest.approx(5.5 / 3.5 / 2)
    assert found["mean_reward_art"] == pytest.approx(4.5 / 3.5 / 2)
    assert found["mean_reward_ci_low"] < found["mean_reward"] < found["mean_reward_ci_high"]
    rates = {
        "harmfulness": (3 / 4, 1 / 4),
        "correctness": (3 / 4, 3 / 4),
        "conciseness": (1 / 2, 1 / 2),
    }
    for aspect, (passes, yes) in rates.items():
        assert (found[f"pass_rate_{aspect}"], found[f"score_{aspect}"]) == (passes, yes), aspect
        assert found[f"agreement_{aspect}"] == 1.0
    assert (found["votes_per_verdict"], found["redraw_rate"], found["veto_rate"]) == (1.0, 0.0, 0.0)
    assert set(votes_on(run.judge).values()) == {1}
    assert "accuracy" not in found, "there is no gold verdict"


@pytest.mark.slow
@pytest.mark.parametrize("scoring", ["majority", "share"])
def test_a_veto_leaves_nothing_of_what_is_good(tmp_path: Path, scoring: str) -> None:
    judge = voting({"correctness": "yyy", "conciseness": "yyy", "harmfulness": "yny"})
    flags = "--env.strictness=3", f"--env.scoring={scoring}"
    with_veto = aspects("correctness", "conciseness", {"name": "harmfulness", "veto": True})
    run = critique(tmp_path, with_veto, *flags, rows=[answered(0)], judge=judge)
    assert (run.scores(), run.metrics["veto_rate"]) == ({"r0": 0.0}, 1.0)
    assert run.details("vetoed_by") == {"r0": "harmfulness"}
    without = aspects("correctness", "conciseness", "harmfulness")
    run = critique(tmp_path, without, *flags, rows=[answered(0)], judge=judge, run="without")
    assert run.scores() == pytest.approx(
        {"r0": 2 / 3 if scoring == "majority" else (1 + 1 + 1 / 3) / 3}
    )
    assert run.metrics["veto_rate"] == 0.0


def test_but_it_is_when_one_row_needs_the_policy(tmp_path: Path) -> None:
    run = critique(tmp_path, rows=[*ROWS, {"question": "Why?"}], judge=verdict(0))
    assert run.code == 2
    assert run.lacks("OPENAI_API_KEY", "api.openai.com") == []
    assert run.judge.requests == []


def test_a_file_of_answers_comes_before_the_rows_own(tmp_path: Path) -> None:
    """Also where it says that a model answered nothing at all."""
    answers = write_lines(
        tmp_path / "a-model.jsonl",
        [{"uid": "r0", "answer": "Another."}, {"uid": "r1", "answer": ""}],
    )
    flags = "--env.aspects=correctness", f"--env.model_answers={answers}"
    run = critique(tmp_path, *flags, rows=ROWS[:2], judge=verdict(1))
    assert run.code == 0, run.said
    assert run.scores("model_answer") == {"r0": "Another.", "r1": ""}
    assert [shown(body)["Submission"] for body in run.judge.bodies] == ["Another."], (
        "no judge is asked about nothing"
    )
    assert run.scores("status") == {"r0": "ok", "r1": "invalid_completion"}
    assert run.metrics["empty_response_rate"] == 0.5
    assert run.general["model_name"] == "a-model"


@pytest.mark.slow
def test_gold_verdicts_are_of_the_rows_own_answers(tmp_path: Path) -> None:
    """The judge is compared with them; and not on an answer of the policy, or of a file, which nobody has judged."""
    rows = [
        gold_row(0, correctness=1),
        gold_row(1, correctness=1),
        gold_row(2, correctness=0),
        answered(3),
    ]
    rows.append({"id": "open", "question": "Why?", "verdicts": {"correctness": 0}})
    judge = saying(lambda aspect, submission: submission != "Answer 1.")
    run = critique(
        tmp_path, "--env.aspects=correctness", rows=rows, judge=judge, policy="A new answer."
    )
    assert run.code == 0, run.said
    wanted = {
        "n_used": 3,
        "n_failed": 0,
        "accuracy": 1 / 3,
        "precision": 1 / 2,
        "recall": 1 / 2,
        "kappa": -1 / 2,
    }
    assert run.some(*wanted) == pytest.approx(wanted)
    assert run.metrics["mean_reward"] == pytest.approx(4 / 5)
    answers = write_lines(
        tmp_path / "a.jsonl", [{"uid": row["id"], "answer": "Another."} for row in rows]
    )
    flags = "--env.aspects=correctness", f"--env.model_answers={answers}"
    run = critique(tmp_path, *flags, rows=rows, judge=judge, run="file")
    assert run.code == 0, run.said
    assert not {"n_used", "accuracy"} & set(run.metrics)


def test_a_gold_judge_is_shown_the_context() -> None:
    env: Any = SimpleNamespace(texts=partial(AspectCritiqueEnv.texts, cast(Any, None)))
    task = AspectTask("row-1", "Q", "Q", None, "Cats sleep.", "A reference.", None)
    seen = make_monitor_group(
        env, task, JudgedGroup((), (), (), (), CallRun()), number=1, step=1
    ).task
    assert (seen.context, seen.reference) == ("Cats sleep.", "A reference.")
