"""The formulas on the pages of metrics, computed once more from the lines of runs, give the metrics of these runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, pstdev, stdev
from typing import Any

import pytest

from judgegym.engine.metrics import slug
from tests.docs.runs import Finished, Runs

Line = dict[str, Any]
Found = Mapping[str, float]


def rates(name: str, values: Sequence[Any], of: Sequence[Any]) -> dict[str, float]:
    """How often each value occurs."""
    return {f"{name}{value}": fmean(each == value for each in of) for value in values}


def shared(counting: Sequence[Line], failed: Sequence[Line]) -> Found:
    """Those of all environments in which one policy answers and a judge is asked."""
    rows = [*counting, *failed]
    said = [
        each for row in rows for each in ([row] if "model_answer" in row else row["completions"])
    ]
    critiqued = [row for row in rows if "critique" in row]
    changes = [row["score"] - row["critique"]["before_score"] for row in critiqued]
    found = {
        "selected_rows": len(rows),
        "total_samples": len(counting),
        "judge_error_rate": sum(row["status"] in ("judge_failed", "unparsable") for row in failed)
        / len(rows),
        "policy_error_rate": sum(row["status"] == "policy_failed" for row in failed) / len(rows),
        "response_length_chars": fmean(len(each["model_answer"]) for each in said),
        "truncated_response_rate": fmean(each["finish_reason"] == "length" for each in said),
        "short_response_rate": fmean(each["short_response"] for each in said),
    }
    for role in ("policy", "judge"):
        made = [row["run"][f"{role}_calls"] for row in rows]
        calls = [
            call
            for each in made
            for call in (each.values() if isinstance(each, dict) else each or ())
        ]
        answered = [call["latency_s"] for call in calls if call["latency_s"] and not call["cached"]]
        found |= {
            f"{role}_calls": len(calls),
            f"{role}_requests": sum(call["attempts"] for call in calls),
            f"{role}_prompt_tokens": sum(call["usage"]["prompt_tokens"] for call in calls),
        }
        found |= {f"{role}_latency_mean_s": fmean(answered)} if answered else {}
    if critiqued:
        found |= {
            "critique_changed_rate": fmean(change != 0 for change in changes),
            "critique_mean_change": fmean(changes),
            "critique_rounds": fmean(
                max(each["round"] for each in row["critique"]["rounds"]) for row in critiqued
            ),
        }
    return found


def arena(rows: Sequence[Line], failed: Sequence[Line]) -> Found:
    entries = [row["detail"]["entries"] if row["detail"] else [0.0, 0.0] for row in rows]
    orders = [row["orders"] for row in rows if row["orders"]]
    return {
        **shared(rows, failed),
        "overall_winrate": sum(map(sum, entries)) / sum(map(len, entries)),
        "win_count": sum(row["label"] == "win" for row in rows),
        "tie_rate": fmean(row["label"] == "tie" for row in rows),
        "position_agreement_rate": fmean(
            each["model_is_a"] == each["model_is_b"] for each in orders
        ),
        "first_position_advantage": fmean(
            each["model_is_a"] - each["model_is_b"] for each in orders
        ),
    }


def candidates(rows: Sequence[Line], failed: Sequence[Line]) -> Found:
    games = [game for row in rows for game in row["detail"]["games"] if game["points"] is not None]
    points = {True: 0.0, False: 0.0}  # of the candidates, of the baseline
    for game in games:
        if "baseline" in (game["first"], game["second"]):
            points[game["first"] != "baseline"] += game["weight"] * game["points"]
            points[game["second"] != "baseline"] += game["weight"] * (1 - game["points"])
    of_one = [game for game in games if "offline-policy-1" in (game["first"], game["second"])]
    return {
        "overall_winrate": points[True] / (points[True] + points[False]),
        "first_position_advantage": fmean(
            2 * game["points"] - 1 for game in games if game["decided"] == "judge"
        ),
        "games_offline-policy-1": len(of_one),
        "games_played": len(games),
        "wrong_answers": sum(
            each["answer"] is not None and each["error"] is not None
            for row in rows
            for each in row["detail"]["answers"]
        ),
    }


def pairwise(rows: Sequence[Line], failed: Sequence[Line]) -> Found:
    choices = [row["detail"] for row in rows if row["detail"]["mode"] == "choice"]
    pairs = [pair for each in choices for pair in zip(each["gold"], each["letters"], strict=True)]
    ratings = [rating for row in rows for rating in row["detail"]["ratings"]]
    return {
        "percent_correct": fmean(row["score"] for row in rows),
        "choice_format_compliance_rate": fmean(letter is not None for _, letter in pairs),
        **rates("gold_letter_freq_", "ABCD", [gold for gold, _ in pairs]),
        **rates(
            "predicted_letter_freq_", "ABCD", [letter for _, letter in pairs if letter is not None]
        ),
        "wrong_answer_a_bias_rate": fmean(
            letter == "A" for gold, letter in pairs if letter not in (None, gold)
        ),
        "avg_ties_rating": fmean(rating for rating in ratings if rating is not None),
        **rates(
            "ties_rating_freq_", range(1, 11), [rating for rating in ratings if rating is not None]
        ),
    }


def aspects(rows: Sequence[Line], failed: Sequence[Line]) -> Found:
    verdicts = [verdict for row in rows for verdict in row["detail"]["aspects"]]
    found = {
        **shared(rows, failed),
        "mean_reward": fmean(row["score"] for row in rows),
        "votes_per_verdict": fmean(
            sum(vote["yes"] is not None for vote in each["votes"]) for each in verdicts
        ),
        "veto_rate": fmean(row["detail"]["vetoed_by"] is not None for row in rows),
    }
    for name, bad in (("harmfulness", True), ("correctness", False)):
        own = [each for each in verdicts if each["aspect"] == name]
        found[f"pass_rate_{name}"] = fmean(each["yes"] != bad for each in own)
        found[f"score_{name}"] = fmean(each["yes"] for each in own)
        found[f"agreement_{name}"] = fmean(each["agreement"] for each in own)
    return found


def aspects_of_a_judge(rows: Sequence[Line], failed: Sequence[Line]) -> Found:
    pairs = [(row["detail"]["aspects"][0]["yes"], row["detail"]["gold"]) for row in rows]
    of_yes = [yes for yes, gold in pairs if gold]
    return {
        "mean_reward": fmean(yes == gold for yes, gold in pairs),
        "accuracy": fmean(yes == gold for yes, gold in pairs),
        "recall": fmean(of_yes),
        "n_used": len(pairs),
    }


def rubric(rows: Sequence[Line], failed: Sequence[Line]) -> Found:
    judgments = [row["detail"]["judgments"] for row in rows]
    return {
        **shared(rows, failed),
        "mean_score": fmean(row["score"] for row in rows),
        "mean_reward": fmean((row["score"] - 1) / 4 for row in rows),
        "spread_of_judgments": fmean(
            stdev(each["score"] for each in of_row) for of_row in judgments
        ),
        "strict_format_rate": fmean(each["strict"] for of_row in judgments for each in of_row),
    }


def rubric_of_a_judge(rows: Sequence[Line], failed: Sequence[Line]) -> Found:
    pairs = [(row["detail"]["judgments"][0]["score"], row["detail"]["gold"]) for row in rows]
    return {
        "mean_reward": fmean(1 - abs(score - gold) / 4 for score, gold in pairs),
        "exact_rate": fmean(score == gold for score, gold in pairs),
        "within_one_rate": fmean(abs(score - gold) <= 1 for score, gold in pairs),
        "mae": fmean(abs(score - gold) for score, gold in pairs),
        "bias": fmean(score - gold for score, gold in pairs),
        **rates("score_freq_", range(1, 6), [score for score, _ in pairs]),
    }


def peers(rows: Sequence[Line], failed: Sequence[Line]) -> Found:
    cells = [cell for row in rows for cell in row["detail"]["cells"]]
    changes = [cell["score"] - cell["before_score"] for cell in cells if cell["rounds"]]
    return {
        "mean_score": fmean(
            fmean(cell["score"] for cell in row["detail"]["cells"]) for row in rows
        ),
        **{
            f"mean_score_{slug(name)}": fmean(
                cell["score"] for cell in cells if cell["candidate"] == name
            )
            for name in {cell["candidate"] for cell in cells}
        },
        "critique_raised_rate": fmean(change > 0 for change in changes),
        "critique_mean_change": fmean(changes),
        "missing_cells": sum(cell["score"] is None for cell in cells),
    }


FORMULAS: Mapping[str, Callable[[Sequence[Line], Sequence[Line]], Found]] = {
    "arena": arena,
    "arena-failing": arena,
    "candidates": candidates,
    "pairwise": pairwise,
    "aspects": aspects,
    "aspects-judge": aspects_of_a_judge,
    "rubric": rubric,
    "rubric-judge": rubric_of_a_judge,
    "peers": peers,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_give_the_metrics_of_a_run(name: str, runs: Runs) -> None:
    run = runs(name)
    found = {
        f"eval/{short}": value
        for short, value in FORMULAS[name](run.files.samples, run.files.failures).items()
    }
    assert {metric: run.metrics[metric] for metric in found} == pytest.approx(found)


def of_groups(run: Finished) -> Found:
    assert run.groups is not None
    groups = [json.loads(line) for line in run.groups.read_bytes().splitlines()]
    rewards, lengths = [], []
    for group in groups:
        overrides = group.get("overrides", [{}] * len(group["scores"]))
        rewards += [
            reward
            for reward, override in zip(group["scores"], overrides, strict=True)
            if not override
        ]
        lengths += [sum(token != -100 for token in mask) for mask in group["masks"]]
    statuses = [turns[-1]["judgment"]["status"] for group in groups for turns in group["messages"]]
    return {
        "groups_judged": len(groups),
        "total_judgments": statuses.count("ok"),
        "judge_error_rate": fmean(status in ("judge_failed", "unparsable") for status in statuses),
        "reward_mean": fmean(rewards),
        "reward_std": pstdev(rewards),
        "completion_lengths": fmean(lengths),
        "completion_lengths_std": pstdev(lengths),
        "completion_lengths_max": max(lengths),
        "groups_without_signal_rate": fmean(len(set(group["scores"])) == 1 for group in groups),
    }


@pytest.mark.parametrize(
    "name", ["arena-groups", "arena-failing-groups", "arena-together", "rubric-groups"]
)
def test_formulas_give_the_metrics_of_groups(name: str, runs: Runs) -> None:
    run = runs(name)
    found = {f"train/{short}": value for short, value in of_groups(run).items()}
    assert {metric: run.metrics[metric] for metric in found} == pytest.approx(found)
