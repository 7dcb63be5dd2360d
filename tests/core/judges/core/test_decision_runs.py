"""Decision models in commands: one request a row, resume, plan, cascade, stand-in, and settings that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from judgegym.engine.runs.directory import locate_run_directory
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.reports.results.run import SavedRun
from judgegym_trials.audit.runs import read_run_judgments
from tests.command import serving, write_lines
from tests.core.datasets.scoring import Scoring, rated, read_rows, score
from tests.decisions import decision_settings, decisions_url, gateway, wrap
from tests.plans import read_plan
from tests.scripted import Json, Reply, ScriptedEndpoint

CRITERIA = json.dumps([f"Criterion {number}." for number in range(40)])
ROWS = [{"prompt": f"Question {number}?", "response": f"0.{number}"} for number in range(1, 5)]
FORM = ("--judge_api=decisions", "--judge_model_name=jev")
LIST = ("--judge=checklist", f"--criteria={CRITERIA}", "--formula=weighted_mean", *FORM)


def by_response(question: Json, state: Any) -> float:
    return float(state["response"])


def scoring_with(folder: Path, judge: ScriptedEndpoint) -> Scoring:
    """The command with a gateway, whose whole URL is the judge's."""
    judge.base_url = decisions_url(judge)
    return Scoring(folder, judge)


def test_a_list_of_forty_criteria_is_one_request_and_a_resumed_run_pays_none_twice(
    tmp_path: Path,
) -> None:
    with serving(gateway(by_response, "result")) as judge:
        scoring = scoring_with(tmp_path, judge)
        stopped = scoring(*LIST, "--budget_calls=2", rows=ROWS)
        assert (stopped.code, len(judge.requests)) == (3, 2), stopped.said
        ended = scoring(*LIST, "--budget_calls=9", "--resume")
        assert (ended.code, len(judge.requests)) == (0, 4), ended.said
    assert {len(body["questions"]) for body in judge.bodies} == {40}
    assert scoring.column("judge/score") == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert scoring.run.report["config_general"]["served_models"] == {"judge": {"jev-1.14": 4}}


def test_prices_tokens_and_a_budget_of_dollars(tmp_path: Path) -> None:
    with serving(gateway(by_response)) as judge:
        scoring = scoring_with(tmp_path, judge)
        prices = ("--judge_price_input=1", "--judge_price_output=0", "--budget_usd=1")
        ended = scoring(*LIST, *prices, rows=ROWS)
        assert ended.code == 0, ended.said
    assert scoring.run.metrics["judge_cost_usd"] == pytest.approx(4 * 200 / 1e6)


def test_gold_is_compared_with_the_likelier_side_and_an_audit_reads_probabilities(
    tmp_path: Path,
) -> None:
    rows = [
        {"prompt": f"Question {number}?", "response": f"0.{1 + number % 9}", "gold": number % 2}
        for number in range(40)
    ]
    aspect = ("--judge=aspect", "--aspects=correctness", "--gold_column=gold", *FORM)
    with serving(gateway(by_response)) as judge:
        scoring = scoring_with(tmp_path, judge)
        ended = scoring(*aspect, rows=rows)
        assert ended.code == 0, ended.said
        shares = scoring.column("judge/score")
        right = [
            (share >= 0.5) == bool(row["gold"]) for share, row in zip(shares, rows, strict=True)
        ]
        run = SavedRun.open(locate_run_directory(scoring.out))
        assert [sample.gold[0].agrees for sample in run.samples()] == right
        probabilities = read_run_judgments(run).probabilities
        assert probabilities is not None
        assert probabilities.tolist() == shares

        labels = tmp_path / "labels.jsonl"
        lines: list[Json] = [{"drawn": {"how": "random", "seed": 0, "rows": len(rows), "run": ""}}]
        for sample, row in zip(run.samples(), rows, strict=True):
            lines.append({"uid": sample.uid, "labeller": "ann", "label": row["gold"]})
        labels.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        url = f"--judge_base_url={judge.base_url}"
        without_gold = ("--judge=aspect", "--aspects=correctness", *FORM, url)
        ended = score(scoring.data, "--out", tmp_path / "bare.jsonl", *without_gold)
        assert ended.code == 0, ended.said
        bare = SavedRun.open(locate_run_directory(tmp_path / "bare.jsonl"))
        judgments = read_run_judgments(bare, labels=labels)
        assert judgments.kind == "label"
        assert judgments.probabilities is not None
        assert sorted(judgments.probabilities.tolist()) == sorted(shares)

        config = run.path / "config.yaml"
        again = score(scoring.data, "--config", config, "--out", tmp_path / "again.jsonl")
        assert again.code == 0, again.said
    assert (tmp_path / "again.jsonl").read_bytes() == scoring.out.read_bytes()


def test_answers_that_nobody_can_read_fail_the_row(tmp_path: Path) -> None:
    def one_unread(request: Json, number: int) -> Any:
        if request["state"]["response"] == "0.2":
            return Reply(body=wrap({"q1": {"type": "noul", "noul": 7}}))
        return gateway(by_response)(request, number)

    with serving(one_unread) as judge:
        scoring = scoring_with(tmp_path, judge)
        ended = scoring(*LIST, "--max_judge_error_rate=1", rows=ROWS)
        assert len(judge.requests) == 6, ended.said
    assert scoring.column("judge/score") == pytest.approx([0.1, None, 0.3, 0.4])


def test_a_plan_counts_one_call_a_row(tmp_path: Path) -> None:
    with serving(gateway(by_response)) as judge:
        prices = ("--judge_price_input=1", "--judge_price_output=1")
        plan = scoring_with(tmp_path, judge)(*LIST, *prices, "--plan", rows=ROWS)
    assert "batch" not in plan.out
    assert (plan.code, judge.requests) == (0, []), plan.said
    (model,) = read_plan(plan.out).models.values()
    assert (model.calls.usual, model.reply_tokens.usual) == (4, 0)


@pytest.mark.parametrize("kind", ["rubric", "aspect", "checklist"])
def test_the_stand_in_answers_prompts(tmp_path: Path, kind: str) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(map(json.dumps, ROWS)))
    criteria = [f"--criteria={CRITERIA}"] if kind == "checklist" else []
    words = [f"--judge={kind}", "--judge_api=decisions", *criteria]
    ended = score(data, "--out", tmp_path / "out.jsonl", "--offline", *words)
    assert ended.code == 0, ended.said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--judge=aspect",), "judge_api=decisions needs"),
        (("--judge=arena_hard", "--judge_base_url=http://127.0.0.1:9/x"), "rubric and choice"),
        (("--judge=reward_model", "--judge_base_url=http://127.0.0.1:9/x"), "rubric and choice"),
        (("--judge=listwise", "--judge_base_url=http://127.0.0.1:9/x"), "typed questions"),
        (("--judge=tournament", "--judge_base_url=http://127.0.0.1:9/x"), "rubric and choice"),
        (
            ("--judge=rubric", "--scale_max=11", "--judge_base_url=http://127.0.0.1:9/x"),
            "11 levels",
        ),
        (
            (
                "--judge=aspect",
                '--judge_extra_body={"state": "x"}',
                "--judge_base_url=http://127.0.0.1:9/x",
            ),
            "the judge sets 'state' itself",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({**ROWS[0], "baseline": "No."}))
    ended = score(data, "--out", tmp_path / "out.jsonl", *FORM, *words)
    assert (ended.code, "Traceback" in ended.said) == (2, False), ended.said
    assert said in ended.err.splitlines()[-1]


def cascade(confidence: str, **cheap: Any) -> AnyJudgeSettings:
    return AnyJudgeSettings.model_validate(
        {
            "judge": "cascade",
            "cascade": {"cheap": {"judge": "aspect", **cheap}, "strong": {"judge": "aspect"}},
            "cascade_confidence": confidence,
        }
    )


def test_a_cascade_takes_the_probability_of_a_decision_model() -> None:
    decides = {"judge_api": "decisions", "judge_base_url": "http://127.0.0.1:9/v1/decisions"}
    cascade("probability", **decides)
    with pytest.raises(ValidationError, match="no votes"):
        cascade("votes", **decides)
    with pytest.raises(ValidationError, match="needs judge_api=decisions"):
        cascade("probability")


def test_a_cascade_escalates_what_is_less_probable(tmp_path: Path) -> None:
    with serving(gateway(by_response)) as cheap, serving(rated(lambda _: 5)) as strong:
        parts = {
            "cheap": {"judge": "aspect", "aspects": "correctness", **decision_settings(cheap)},
            "strong": {"judge": "rubric", "judge_base_url": strong.base_url},
        }
        config = tmp_path / "cascade.yaml"
        config.write_text(json.dumps({"judge": "cascade", "cascade": parts}))
        words = ("--cascade_confidence=probability", "--cascade_threshold=0.75")
        data = write_lines(tmp_path / "data.jsonl", ROWS)
        ended = score(data, "--out", tmp_path / "out.jsonl", "--config", config, *words)
        assert (ended.code, len(cheap.requests), len(strong.requests)) == (0, 4, 2), ended.said
    scores = [row["judge/score"] for row in read_rows(tmp_path / "out.jsonl")]
    assert scores == pytest.approx([0.1, 0.2, 1, 1])


def test_litellms_request_models_take_what_is_sent(tmp_path: Path) -> None:
    types = pytest.importorskip("litellm.types.decisions", reason="litellm is not installed")
    with serving(gateway(by_response)) as judge:
        scoring = scoring_with(tmp_path, judge)
        assert scoring(*LIST, rows=ROWS).code == 0
    for body in judge.bodies:
        types.DecisionsRequest.model_validate(body)
