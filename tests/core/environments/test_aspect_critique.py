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
from judgegym.environments.training.monitoring import monitor_group
from judgegym.judges.core.judgment import CallRun
from tests.aspects import ASPECTS, answered, aspects, critique, gold_row, saying, shown, verdict, votes_on, voting
from tests.command import write_lines
from tests.judged import never

STATISTICS = ("accuracy", "precision", "recall", "f1", "kappa")
GOLD = {*STATISTICS, *(f"{name}_{aspect}" for name in STATISTICS for aspect in ASPECTS), "n_used", "n_failed"}
MEAN = {"mean_reward", "mean_reward_ci_low", "mean_reward_ci_high"}
VOTES = {"votes_per_verdict", "redraw_rate", *(f"agreement_{aspect}" for aspect in ASPECTS)}
CATEGORIES = ("facts", "math", "code", "advice", "safety", "writing")
OF_ROLE = {
    "policy": {
        *(f"mean_reward_{category}" for category in CATEGORIES),
        *(f"pass_rate_{aspect}{end}" for aspect in ASPECTS for end in ("", "_ci_low", "_ci_high")),
        *(f"score_{aspect}" for aspect in ASPECTS),
        "veto_rate",
    },
    "judge": {f"mean_reward_{aspect}" for aspect in ASPECTS},
}


@pytest.mark.slow
@pytest.mark.parametrize(("role", "rows"), [("policy", 14), ("judge", 8 * 5)])
def test_the_bundled_samples_have_every_metric(tmp_path: Path, role: str, rows: int) -> None:
    run = critique(tmp_path, f"--env.role={role}", "--env.strictness=3")
    assert run.code == 0, run.said
    wanted = MEAN | VOTES | GOLD | OF_ROLE[role]
    assert wanted - set(run.metrics) == set(run.left_out) & wanted, "what is not there has a reason"
    assert set(run.left_out) <= {f"{name}_{aspect}" for name in STATISTICS for aspect in ASPECTS}
    assert run.metrics["total_samples"] == run.metrics["selected_rows"] == rows
    assert run.metrics["n_used"] + run.metrics["n_failed"] == 8 * 5
    assert not [name for name in run.metrics if " " in name]


TABLE = {
    "Answer 0.": {"harmfulness": False, "correctness": True, "conciseness": True},
    "Answer 1.": {"harmfulness": False, "correctness": False, "conciseness": True},
    "Answer 2.": {"harmfulness": True, "correctness": True, "conciseness": False},
    "Answer 3.": {"harmfulness": False, "correctness": True, "conciseness": False},
}
THREE = aspects("harmfulness", {"name": "correctness", "weight": 2}, {"name": "conciseness", "weight": 0.5})
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
    rates = {"harmfulness": (3 / 4, 1 / 4), "correctness": (3 / 4, 3 / 4), "conciseness": (1 / 2, 1 / 2)}
    for aspect, (passes, yes) in rates.items():
        assert (found[f"pass_rate_{aspect}"], found[f"score_{aspect}"]) == (passes, yes), aspect
        assert found[f"agreement_{aspect}"] == 1.0
    assert (found["votes_per_verdict"], found["redraw_rate"], found["veto_rate"]) == (1.0, 0.0, 0.0)
    assert set(votes_on(run.judge).values()) == {1}
    assert "accuracy" not in found, "there is no gold verdict"


FOUR = aspects({"name": "correctness", "weight": 2}, "conciseness", "harmfulness")
README = {"correctness": "yny", "conciseness": "nny", "harmfulness": "nnn"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scoring", "reward", "votes", "conciseness"), [("majority", 0.75, 7, 1.0), ("share", 2 / 3, 9, 2 / 3)]
)
def test_majority_and_share(tmp_path: Path, scoring: str, reward: float, votes: int, conciseness: float) -> None:
    """A majority is certain after two votes that agree; a share is one of all votes."""
    flags = FOUR, "--env.strictness=3", f"--env.scoring={scoring}"
    run = critique(tmp_path, *flags, rows=[answered(0)], judge=voting(README))
    assert run.code == 0, run.said
    assert run.metrics["mean_reward"] == pytest.approx(reward)
    assert len(run.judge.requests) == votes
    assert run.metrics["votes_per_verdict"] == pytest.approx(votes / 3)
    assert run.metrics["agreement_correctness"] == pytest.approx(2 / 3)
    assert run.metrics["agreement_conciseness"] == pytest.approx(conciseness)
    assert run.metrics["agreement_harmfulness"] == 1.0
    passes = {"pass_rate_correctness": 1.0, "pass_rate_conciseness": 0.0, "pass_rate_harmfulness": 1.0}
    assert run.some(*passes) == passes


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
    assert run.scores() == pytest.approx({"r0": 2 / 3 if scoring == "majority" else (1 + 1 + 1 / 3) / 3})
    assert run.metrics["veto_rate"] == 0.0


def test_what_a_judge_is_shown(tmp_path: Path) -> None:
    """The sections that there are, and no word of those that are not."""
    rows = [
        answered(0, contexts=["one", "two"], reference="R"),
        {"id": "alone", "answer": "Just this."},
        {"id": "listless", "user_input": "Why?", "response": "So.", "contexts": []},
    ]
    run = critique(tmp_path, "--env.aspects=coherence", rows=rows, judge=verdict(1))
    assert run.code == 0, run.said
    seen = sorted((shown(body) for body in run.judge.bodies), key=len, reverse=True)
    definition = seen[0].pop("Criteria")
    assert "logical and organized" in definition
    assert seen == [
        {"Input": "Question 0?", "Context": "one\ntwo", "Reference": "R", "Submission": "Answer 0."},
        {"Input": "Why?", "Submission": "So.", "Criteria": definition},
        {"Submission": "Just this.", "Criteria": definition},
    ]
    assert "None" not in "".join(body["messages"][-1]["content"] for body in run.judge.bodies)


@pytest.mark.slow
def test_rows_with_answers_of_their_own_ask_no_policy(tmp_path: Path) -> None:
    run = critique(tmp_path, rows=ROWS, judge=verdict(0), policy=never)
    assert run.code == 0, run.said
    assert run.policy.requests == []
    assert set(run.scores("model_answer").values()) == set(TABLE)
    # The answers are the dataset's: neither the policy's name nor its temperature may stand beside their numbers.
    assert run.general["model_name"] != "the-policy"
    assert set(run.general["generation_parameters"]) == {"judge_temperature", "judge_max_tokens"}


def test_but_it_is_when_one_row_needs_the_policy(tmp_path: Path) -> None:
    run = critique(tmp_path, rows=[*ROWS, {"question": "Why?"}], judge=verdict(0))
    assert run.code == 2
    assert run.lacks("OPENAI_API_KEY", "api.openai.com") == []
    assert run.judge.requests == []


def test_a_key_of_the_judge_is_demanded(tmp_path: Path) -> None:
    run = critique(tmp_path, rows=ROWS, policy=never)
    assert run.code == 2
    assert run.lacks("ANTHROPIC_API_KEY", "api.anthropic.com") == []


@pytest.mark.slow
def test_thinking_is_asked_of_the_policy_and_not_of_the_rows_own_answers(tmp_path: Path) -> None:
    """They were never told to think aloud: without tags they are judged as they are, and not refused as malformed."""
    rows = [answered(0), {"id": "open", "question": "Why?"}]
    flags = "--env.aspects=correctness", "--env.thinking_mode=True"
    run = critique(tmp_path, *flags, rows=rows, judge=verdict(1), policy="<think>Hm.</think>A new answer.")
    assert run.code == 0, run.said
    assert run.scores() == {"r0": 1.0, "open": 1.0}
    assert run.scores("model_answer") == {"r0": "Answer 0.", "open": "A new answer."}


@pytest.mark.slow
def test_rows_without_an_answer_ask_the_policy(tmp_path: Path) -> None:
    rows = [
        answered(0),
        {"id": "open", "question": "Why?", "contexts": ["one", "two"]},
        {"id": "plain", "prompt": "How?"},
    ]
    run = critique(tmp_path, "--env.aspects=correctness", rows=rows, judge=verdict(1), policy="A new answer.")
    assert run.code == 0, run.said
    assert run.scores("model_answer") == {"r0": "Answer 0.", "open": "A new answer.", "plain": "A new answer."}
    asked = [body["messages"] for body in run.policy.bodies]
    assert sorted(messages[-1]["content"] for messages in asked) == ["How?", "Why?\n\nContext:\none\ntwo"]
    assert {len(messages) for messages in asked} == {1}
    assert run.general["model_name"] == "the-policy"


def test_a_file_of_answers_comes_before_the_rows_own(tmp_path: Path) -> None:
    """Also where it says that a model answered nothing at all."""
    answers = write_lines(
        tmp_path / "a-model.jsonl", [{"uid": "r0", "answer": "Another."}, {"uid": "r1", "answer": ""}]
    )
    flags = "--env.aspects=correctness", f"--env.model_answers={answers}"
    run = critique(tmp_path, *flags, rows=ROWS[:2], judge=verdict(1))
    assert run.code == 0, run.said
    assert run.scores("model_answer") == {"r0": "Another.", "r1": ""}
    assert [shown(body)["Submission"] for body in run.judge.bodies] == ["Another."], "no judge is asked about nothing"
    assert run.scores("status") == {"r0": "ok", "r1": "invalid_completion"}
    assert run.metrics["empty_response_rate"] == 0.5
    assert run.general["model_name"] == "a-model"


@pytest.mark.slow
def test_gold_verdicts_are_of_the_rows_own_answers(tmp_path: Path) -> None:
    """The judge is compared with them; and not on an answer of the policy, or of a file, which nobody has judged."""
    rows = [gold_row(0, correctness=1), gold_row(1, correctness=1), gold_row(2, correctness=0), answered(3)]
    rows.append({"id": "open", "question": "Why?", "verdicts": {"correctness": 0}})
    judge = saying(lambda aspect, submission: submission != "Answer 1.")
    run = critique(tmp_path, "--env.aspects=correctness", rows=rows, judge=judge, policy="A new answer.")
    assert run.code == 0, run.said
    wanted = {"n_used": 3, "n_failed": 0, "accuracy": 1 / 3, "precision": 1 / 2, "recall": 1 / 2, "kappa": -1 / 2}
    assert run.some(*wanted) == pytest.approx(wanted)
    assert run.metrics["mean_reward"] == pytest.approx(4 / 5)
    answers = write_lines(tmp_path / "a.jsonl", [{"uid": row["id"], "answer": "Another."} for row in rows])
    flags = "--env.aspects=correctness", f"--env.model_answers={answers}"
    run = critique(tmp_path, *flags, rows=rows, judge=judge, run="file")
    assert run.code == 0, run.said
    assert not {"n_used", "accuracy"} & set(run.metrics)


def test_a_judge_that_always_says_yes(tmp_path: Path) -> None:
    """What cannot be computed has a reason, and everything else a finite number."""
    rows = [gold_row(0, correctness=1, harmfulness=0), gold_row(1, correctness=1, harmfulness=0)]
    run = critique(tmp_path, "--env.aspects=correctness,harmfulness", rows=rows, judge=verdict(1))
    assert run.code == 0, run.said
    assert run.metrics["mean_reward"] == 0.5
    assert run.left_out == {
        "kappa_correctness": "judge and gold are always the same",
        "recall_harmfulness": "gold is never yes",
    }
    wanted = {"accuracy": 1 / 2, "precision": 1 / 2, "recall": 1.0, "f1": 2 / 3, "kappa": 0.0}
    wanted |= {"accuracy_correctness": 1.0, "precision_harmfulness": 0.0, "f1_harmfulness": 0.0}
    assert run.some(*wanted) == pytest.approx(wanted)
    assert "NaN" not in (run.files.path / "metrics.json").read_text()


def test_a_gold_judge_is_shown_the_context() -> None:
    env: Any = SimpleNamespace(texts=partial(AspectCritiqueEnv.texts, cast(Any, None)))
    task = AspectTask("row-1", "Q", "Q", None, "Cats sleep.", "A reference.", None)
    seen = monitor_group(env, task, JudgedGroup((), (), (), (), CallRun()), number=1, step=1).task
    assert (seen.context, seen.reference) == ("Cats sleep.", "A reference.")
