"""Rubric-absolute end to end, the policy responding: judges of known scores give exactly the numbers defined."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from pathlib import Path

import pytest

from judgegym.statistics.intervals import Ends, mean_interval
from tests.command import write_lines
from tests.judged import never
from tests.rubrics import (
    VICUNA,
    by_number,
    giving,
    in_samples,
    labelled,
    needs_vicuna,
    rubric,
    score,
    shown,
    system,
    task,
)
from tests.scripted import Json, Reply

LEVELS = range(1, 6)
MEAN = {"mean_reward", "mean_reward_ci_low", "mean_reward_ci_high"}
SCORE = {"mean_score", "mean_score_ci_low", "mean_score_ci_high"}
GOLD = {"n_used", "n_failed", "exact_rate", "within_one_rate", "mae", "bias", "pearson", "spearman", "kendall_tau_b"}
GOLD |= {"quadratic_kappa", *(f"confusion_gold_{gold}_judge_{given}" for gold in LEVELS for given in LEVELS)}
OF_ALL = MEAN | {"strict_format_rate", *(f"score_freq_{level}" for level in LEVELS)}
CATEGORIES = {f"mean_reward_{name}" for name in ("explanation", "coding", "writing", "math", "summary")}
ROLES = {
    "policy": ((), OF_ALL | SCORE),
    "scores": (("--env.score_responses=True",), OF_ALL | SCORE | GOLD),
    "judge": (("--env.role=judge",), OF_ALL | GOLD),
}


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_the_bundled_samples_have_every_metric(tmp_path: Path, role: str) -> None:
    flags, wanted = ROLES[role]
    run = rubric(tmp_path, *flags, "--env.samples_per_item=3")
    assert run.code == 0, run.said
    wanted = wanted | CATEGORIES | {"spread_of_judgments"}
    assert wanted - set(run.metrics) == set()
    assert run.left_out == {}
    assert run.metrics["total_samples"] == run.metrics["selected_rows"] == 12
    assert sum(run.metrics[f"score_freq_{level}"] for level in LEVELS) == pytest.approx(1.0)
    assert run.lacks("rubric_absolute", "offline stand-in", "scores", "3: ") == []


@pytest.mark.slow
@needs_vicuna
@pytest.mark.parametrize("role", ROLES)
def test_the_real_data_is_read_and_scored(tmp_path: Path, role: str) -> None:
    flags, wanted = ROLES[role]
    rows = [json.loads(line) for line in VICUNA.open(encoding="utf-8")]
    run = rubric(tmp_path, "--offline", *flags, rows=VICUNA)
    assert run.code == 0, run.said
    assert wanted - set(run.metrics) == set()
    assert run.metrics["selected_rows"] == run.metrics["total_samples"] == len(rows) == 320
    assert run.metrics["judge_error_rate"] == run.metrics["policy_error_rate"] == 0
    assert [sample["uid"] for sample in run.files.samples] == [row["id"] for row in rows]
    if role != "policy":
        golds = [statistics.fmean(row["gpt4_scores"]) for row in rows]
        by_level = Counter(min(5, int(gold + 0.5)) for gold in golds)
        assert run.metrics["n_used"] == 320
        for level in LEVELS:
            confused = [run.metrics[f"confusion_gold_{level}_judge_{given}"] for given in LEVELS]
            assert sum(confused) == by_level[level]
    if role == "scores":
        assert run.scores("model_answer") == {row["id"]: row["response"] for row in rows}


GIVEN = {0: 1, 1: 2, 2: 4, 3: 5}
ROWS = [task(number, category=("Maths", "Art")[number % 2]) for number in range(4)]


@pytest.mark.slow
def test_a_score_is_worth_its_place_on_the_scale(tmp_path: Path) -> None:
    run = rubric(tmp_path, rows=ROWS, judge=by_number(GIVEN), policy="A response of mine.")
    assert run.code == 0, run.said
    assert run.scores() == {"r0": 1.0, "r1": 2.0, "r2": 4.0, "r3": 5.0}
    wanted = {"mean_score": 3.0, "mean_reward": 0.5, "mean_reward_maths": 0.375, "mean_reward_art": 0.625}
    wanted |= {
        "score_freq_1": 0.25,
        "score_freq_2": 0.25,
        "score_freq_3": 0.0,
        "score_freq_4": 0.25,
        "score_freq_5": 0.25,
    }
    wanted |= {"strict_format_rate": 1.0}
    assert run.some(*wanted) == pytest.approx(wanted)
    found = run.metrics
    assert found["mean_reward_ci_low"] < 0.5 < found["mean_reward_ci_high"]
    assert not GOLD & set(found)
    assert "spread_of_judgments" not in found
    assert [body["messages"][-1]["content"] for body in run.policy.bodies] != []
    assert {len(body["messages"]) for body in run.policy.bodies} == {1}
    assert Counter(shown(body)["Response To Evaluate"] for body in run.judge.bodies) == {"A response of mine.": 4}


@pytest.mark.slow
def test_answers_to_one_prompt_are_one_observation_of_the_interval(tmp_path: Path) -> None:
    """Five prompts with three answers each, as of three models: what differs between prompts does not average out."""
    rows = [task(number % 5, uid=f"model-{number // 5}/prompt-{number % 5}") for number in range(15)]
    scores = {0: 1, 1: 2, 2: 4, 3: 5, 4: 5}
    run = rubric(tmp_path, rows=rows, judge=by_number(scores), policy="A response of mine.")
    assert run.code == 0, run.said
    assert run.metrics["selected_rows"] == 15
    for name, values, ends in (
        ("mean_score", [*scores.values()], Ends(1, 5)),
        ("mean_reward", [(points - 1) / 4 for points in scores.values()], None),
    ):
        of_prompts = mean_interval(values, ends=ends)
        assert of_prompts is not None
        found = run.some(f"{name}_ci_low", f"{name}_ci_high")
        assert [*found.values()] == pytest.approx([of_prompts.low, of_prompts.high], abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("low", "high", "given", "rewards"),
    [(0, 10, {0: 0, 1: 7}, [0.0, 0.7]), (-2, 2, {0: -2, 1: 1}, [0.0, 0.75]), (1, 2, {0: 2, 1: 1}, [1.0, 0.0])],
)
def test_a_scale_of_its_own(
    tmp_path: Path, low: int, high: int, given: dict[int, int | str], rewards: list[float]
) -> None:
    flags = f"--env.scale_min={low}", f"--env.scale_max={high}"
    run = rubric(tmp_path, *flags, rows=ROWS[:2], judge=by_number(given), policy="A response of mine.")
    assert run.code == 0, run.said
    assert list(run.scores().values()) == list(given.values())
    assert run.metrics["mean_reward"] == pytest.approx(sum(rewards) / 2)
    assert {name for name in run.metrics if name.startswith("score_freq_")} == {
        f"score_freq_{level}" for level in range(low, high + 1)
    }
    for body in run.judge.bodies:
        assert f"an integer between {low} and {high}" in system(body)
        assert f"(an integer number between {low} and {high})" in system(body)


SAMPLES: dict[int, int | str] = {0: 1, 1: 5, 2: 3, 3: 3, 4: 5}


@pytest.mark.slow
@pytest.mark.parametrize(("pooling", "pooled"), [("mean", 17 / 5), ("median", 3.0)])
def test_several_judgments_are_pooled(tmp_path: Path, pooling: str, pooled: float) -> None:
    flags = "--env.samples_per_item=5", f"--env.samples_pooling={pooling}"
    run = rubric(tmp_path, *flags, rows=ROWS[:1], judge=in_samples(SAMPLES), policy="A response of mine.")
    assert run.code == 0, run.said
    assert run.scores() == pytest.approx({"r0": pooled})
    wanted = {
        "mean_score": pooled,
        "mean_reward": (pooled - 1) / 4,
        "spread_of_judgments": statistics.stdev([1, 5, 3, 3, 5]),
    }
    wanted |= {"score_freq_3": 1.0, "score_freq_4": 0.0}
    assert run.some(*wanted) == pytest.approx(wanted)
    assert sorted(body["seed"] for body in run.judge.bodies) == [0, 1, 2, 3, 4]
    assert {body["temperature"] for body in run.judge.bodies} == {0.7}
    assert [each["score"] for each in run.files.samples[0]["detail"]["judgments"]] == [1, 5, 3, 3, 5]


@pytest.mark.slow
def test_feedback_in_other_words_is_no_strict_format(tmp_path: Path) -> None:
    texts = {0: "Sure! [FEEDBACK] x [SCORE] 4", 1: "[FEEDBACK] x\n**[SCORE] 4/5**", 2: score(4), 3: "[SCORE] 4"}
    run = rubric(tmp_path, rows=ROWS, judge=by_number(texts), policy="A response of mine.")
    assert run.code == 0, run.said
    assert run.some("mean_score", "strict_format_rate") == {"mean_score": 4.0, "strict_format_rate": 0.25}


@pytest.mark.slow
def test_formats_of_rows_without_a_score_count_too(tmp_path: Path) -> None:
    texts = {0: score(4), 1: "I would give it a four.", 2: score(4), 3: score(4)}
    run = rubric(
        tmp_path, "--env.max_judge_error_rate=1", rows=ROWS, judge=by_number(texts), policy="A response of mine."
    )
    assert run.scores("status")["r0"] == "ok" and "r1" not in run.scores()
    assert run.metrics["strict_format_rate"] == 0.5, "three rows in one draw each, and three draws of the other"


DESCRIBED = {"criteria": "Is it good?", **{f"score{level}_description": f"level {level}" for level in LEVELS}}


@pytest.mark.slow
def test_what_a_judge_is_shown(tmp_path: Path) -> None:
    """Without a reference neither its section nor a word about it is there, and never a None."""
    rows = [task(0, reference_answer="A better one.", rubric=DESCRIBED), task(1), task(2, reference_answer="")]
    run = rubric(tmp_path, rows=rows, judge=score(3), policy="A response of mine.")
    assert run.code == 0, run.said
    bodies = {shown(body)["Instruction"]: body for body in run.judge.bodies}
    levels = "\n".join(f"Score {level}: level {level}" for level in LEVELS)
    assert shown(bodies["Do 0."]) == {
        "Instruction": "Do 0.",
        "Reference Response": "A better one.",
        "Score Rubric": f"Is it good?\n{levels}",
        "Response To Evaluate": "A response of mine.",
    }
    assert "a reference answer that gets a score of 5, a score rubric" in system(bodies["Do 0."])
    for name in ("Do 1.", "Do 2."):
        assert list(shown(bodies[name])) == ["Instruction", "Score Rubric", "Response To Evaluate"]
        assert "reference" not in system(bodies[name]).lower()
        assert "None" not in json.dumps(bodies[name]["messages"])


@pytest.mark.slow
def test_a_prompt_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "judge.txt").write_text("Judge as you like. [SCORE] n")
    run = rubric(
        tmp_path,
        f"--env.judge_system_prompt=@{tmp_path / 'judge.txt'}",
        rows=ROWS[:1],
        judge=score(3),
        policy="Mine is this.",
    )
    assert system(run.judge.bodies[0]) == "Judge as you like. [SCORE] n"


@pytest.mark.slow
def test_rows_without_a_rubric_have_the_default(tmp_path: Path) -> None:
    rows = [task(0, rubric=None), task(1)]
    run = rubric(tmp_path, "--env.default_rubric=Is it kind?", rows=rows, judge=score(3), policy="Mine is this.")
    assert {shown(body)["Score Rubric"] for body in run.judge.bodies} == {"Is it kind?", "Is it good?"}
    refused = rubric(tmp_path, rows=rows, judge=never, policy=never, run="refused")
    assert refused.code == 2
    assert refused.lacks("row 1", "a rubric", "env.default_rubric") == []


@pytest.mark.slow
def test_a_response_of_the_row_is_not_the_policys(tmp_path: Path) -> None:
    """Without `score_responses` the policy responds; and nobody has a gold score of what it says."""
    run = rubric(tmp_path, rows=[labelled(0, 5)], judge=score(3), policy="A response of mine.")
    assert run.scores("model_answer") == {"r0": "A response of mine."}
    assert not GOLD & set(run.metrics)


@pytest.mark.slow
def test_existing_responses_of_a_file(tmp_path: Path) -> None:
    answers = write_lines(tmp_path / "a-model.jsonl", [{"uid": f"r{n}", "answer": f"Theirs {n}."} for n in range(4)])
    run = rubric(tmp_path, f"--env.model_answers={answers}", rows=ROWS, judge=by_number(GIVEN))
    assert run.code == 0, run.said
    assert run.metrics["mean_score"] == 3.0
    assert run.general["model_name"] == "a-model"


REFUSED = Reply(status=400, body={"error": {"message": "not today"}})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "status", "why"),
    [
        (REFUSED, "judge_failed", "not today"),
        ("I cannot say.", "unparsable", "no verdict could be read"),
        ("[FEEDBACK] x [SCORE] 4.5", "unparsable", "no verdict could be read"),
        ("[FEEDBACK] x [SCORE] 0", "unparsable", "no verdict could be read"),
    ],
)
def test_a_failed_judgment_is_no_score(tmp_path: Path, said: str | Reply, status: str, why: str) -> None:
    judge = giving(lambda instruction, response: said if instruction == "Do 1." else 5)
    run = rubric(tmp_path, rows=ROWS, judge=judge, policy="A response of mine.")
    assert run.code == 1
    assert run.lacks("25.0 %", "max_judge_error_rate", why) == []
    (failure,) = run.files.failures
    assert (failure["uid"], failure["status"], failure["score"]) == ("r1", status, None)
    wanted = {"mean_reward": 1.0, "mean_score": 5.0, "judge_error_rate": 0.25, f"{status}_count": 1, "total_samples": 3}
    assert run.some(*wanted) == wanted


def test_malformed_thinking_is_worth_the_lowest_score(tmp_path: Path) -> None:
    def policy(request: Json, number: int) -> str:
        is_bad = request["messages"][-1]["content"] == "Do 1."
        return "No thinking at all." if is_bad else "<think>Hm.</think>A response of mine."

    flags = "--env.thinking_mode=True", "--env.scale_min=2"
    run = rubric(tmp_path, *flags, rows=ROWS, judge=score(5), policy=policy)
    assert run.code == 0, run.said
    assert run.scores() == {"r0": 5.0, "r1": 2.0, "r2": 5.0, "r3": 5.0}
    wanted = {"mean_reward": 0.75, "mean_score": 17 / 4, "score_freq_5": 1.0, "judge_error_rate": 0.0}
    assert run.some(*wanted) == wanted
    assert {shown(body)["Response To Evaluate"] for body in run.judge.bodies} == {"A response of mine."}
