"""Scores of both gradings are those that FastChat's formulas give for the judge's texts in the samples."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from judgegym.environments.training.monitoring import make_monitor_group
from judgegym.eval_environments.mt_bench_environment import MTBenchEnv
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.mt_bench import MTBenchDetail
from tests.core.environments.rollouts_of import group
from tests.core.environments.words import opened
from tests.mt_bench import Look, answering, data, evaluate
from tests.scripted import Json, Reply, completion

_VERDICT = re.compile(r"\[\[(.+?)\]\]")


def rating(look: Look) -> str:
    """Another one for each row and turn; one of them is no whole number."""
    number = int(look.uid.removeprefix("row-"))
    return (
        "Well.\n\nRating: [[7.5]]"
        if (number, look.turn) == (2, 1)
        else f"[[{1 + (3 * number + 4 * look.turn) % 10}]]"
    )


def letter(look: Look) -> str:
    """Of six rows: won, lost, tied, and three in which the orders disagree; turn 2 is always won."""
    number = int(look.uid.removeprefix("row-"))
    games = (
        [("A", "B"), ("B", "A"), ("C", "C"), ("A", "A"), ("C", "B"), ("B", "C")]
        if look.turn == 1
        else [("A", "B")]
    )
    return f"Compared.\n\n[[{games[number % len(games)][not look.as_a]}]]"


def texts(
    samples: list[dict[str, Any]], verdicts: int
) -> list[tuple[dict[str, Any], int, list[str]]]:
    """The verdicts that stand in the judge's texts, of each sample and turn."""
    found = []
    for sample in samples:
        for turn in (1, 2):
            said = [_VERDICT.findall(each["text"])[-1] for each in sample["detail"][f"turn_{turn}"]]
            if said:
                assert len(said) == verdicts
                found.append((sample, turn, said))
    return found


def test_ratings(tmp_path: Path) -> None:
    run = evaluate(tmp_path, rating, rows=6, alone=["row-5"])
    assert run.ended.code == 0, run.ended.said
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for sample, turn, (said,) in texts(run.files.samples, 1):
        for where in ("", f"_category_{sample['category']}"):
            scores[f"mean_score{where}"].append(float(said))
            scores[f"turn_{turn}_mean_score{where}"].append(float(said))
    assert len(scores["mean_score"]) == 11, "a question has one turn"
    expected = {name: fmean(of) for name, of in scores.items()}
    assert {name: run.files.metrics[name] for name in expected} == pytest.approx(expected)
    first = run.files.samples[0]
    assert first["score"] == pytest.approx(fmean(first["detail"]["parts"].values()))
    assert (
        run.files.metrics["mean_score_ci_low"]
        < run.files.metrics["mean_score"]
        < run.files.metrics["mean_score_ci_high"]
    )


def test_comparisons(tmp_path: Path) -> None:
    run = evaluate(tmp_path, letter, rows=6, baseline=True)
    assert run.ended.code == 0, run.ended.said
    outcomes: dict[int, list[str]] = {1: [], 2: []}
    agree = []
    for _, turn, (g1, g2) in texts(run.files.samples, 2):
        winners = (
            {"A": "model", "B": "baseline"}.get(g1, "tie"),
            {"A": "baseline", "B": "model"}.get(g2, "tie"),
        )
        agree.append(winners[0] == winners[1])
        is_tie = winners[0] == "tie" or winners[0] != winners[1]
        outcomes[turn].append("tie" if is_tie else winners[0])
    assert outcomes[1] == ["model", "baseline", "tie", "tie", "tie", "tie"]
    every, found = [*outcomes[1], *outcomes[2]], run.files.metrics
    won, lost, tied = (every.count(which) for which in ("model", "baseline", "tie"))
    expected = {
        "win_rate": won / 12,
        "loss_rate": lost / 12,
        "tie_rate": tied / 12,
        "win_rate_adjusted": (won + 0.5 * tied) / 12,
        "turn_1_win_rate_adjusted": (outcomes[1].count("model") + 0.5 * outcomes[1].count("tie"))
        / 6,
        "turn_2_win_rate_adjusted": 1.0,
        "position_agreement_rate": sum(agree) / 12,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert "mean_score" not in found
    assert [sample["label"] for sample in run.files.samples][:3] == [
        "win, win",
        "loss, win",
        "tie, win",
    ]


@pytest.mark.parametrize(("baseline", "good"), [(False, "[[8]]"), (True, "[[A]]")])
def test_turn_without_a_verdict_fails_the_row(baseline: bool, good: str, tmp_path: Path) -> None:
    def mumbling(look: Look) -> str:
        return "Hard to say." if (look.uid, look.turn) == ("row-1", 2) else good

    run = evaluate(tmp_path, mumbling, "--env.max_judge_error_rate=1", baseline=baseline)
    (failure,) = run.files.failures
    assert (failure["uid"], failure["status"], failure["score"]) == ("row-1", "unparsable", None)
    assert [*failure["detail"]["parts"]] == ["turn_1"], "no mean of the other turn"
    assert run.files.metrics["judge_error_rate"] == pytest.approx(1 / 3)
    assert len(run.files.samples) == 2
    asked = [look for look in run.looks if (look.uid, look.turn) == ("row-1", 2)]
    assert len(asked) == (4 if baseline else 2), "each prompt is asked again once"


@pytest.mark.parametrize(("baseline", "lowest"), [(False, 1.0), (True, 0.0)])
def test_refused_turn_counts_as_the_lowest_score_in_both_turns(
    baseline: bool, lowest: float, tmp_path: Path
) -> None:
    def refusing(request: Json, number: int) -> Reply | str:
        is_second = "row-2" in request["messages"][0]["content"] and len(request["messages"]) > 1
        return (
            Reply(body=completion("No.", finish_reason="content_filter"))
            if is_second
            else answering(request, number)
        )

    good = "[[A]]" if baseline else "[[9]]"
    run = evaluate(tmp_path, lambda _: good, baseline=baseline, policy=refusing)
    assert run.ended.code == 0, run.ended.said
    assert run.files.samples[2]["status"] == "invalid_completion"
    assert run.files.samples[2]["headline"] == {"total": 2 * lowest, "weight": 2.0}
    assert "row-2" not in {look.uid for look in run.looks}


def test_file_of_one_answer_a_question_is_refused(tmp_path: Path) -> None:
    lines = "".join(
        f'{{"uid": "row-{number}", "answer": "ANSWER of a file"}}\n' for number in range(3)
    )
    (tmp_path / "answers.jsonl").write_text(lines)
    run = evaluate(tmp_path, rating, f"--env.model_answers={tmp_path / 'answers.jsonl'}")
    assert run.ended.code == 2
    assert "question 'row-0': 1 of 2 turns " in run.ended.err
    assert run.judge.requests == []


@pytest.mark.parametrize(("baseline", "shown"), [(False, [0.0, 1.0]), (True, [1.0, 1.0])])
async def test_monitors_are_shown_verdicts_of_turns_from_0_to_1(
    tmp_path: Path, baseline: bool, shown: list[float]
) -> None:
    """The lowest rating is 1, which is no yes; a game that was won is one."""
    scores = {"turn_1": 1.0, "turn_2": 1.0 if baseline else 10.0}
    judgment = Judgment(fmean(scores.values()), Status.OK, detail=MTBenchDetail(scores))
    flags = data(tmp_path, rows=1, baseline=baseline)
    async with opened("unused", *flags, verb="serve", env_type=MTBenchEnv) as (env, _):
        of_one = replace(group([0.5]), judgments=(judgment,))
        seen = make_monitor_group(env, env.tasks("train")[0], of_one, number=1, step=1)
    (rollout,) = seen.rollouts
    assert rollout.criteria == dict(zip(scores, shown, strict=True))
