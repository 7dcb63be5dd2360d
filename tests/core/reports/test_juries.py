"""What runs say of a jury's members and a cascade's judges: agreement, labels, cost, the promise."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.reports.juries import describe_promise, read_report, report_jury
from judgegym.reports.results.run import SavedRun
from judgegym.reports.run_page.page import write_report
from judgegym.statistics.agreement import quadratic_kappa
from tests.command import RunFiles, serving, write_lines
from tests.core.datasets.scoring import response_in, score
from tests.core.reports.compare.written import opened, row
from tests.judged import evaluate
from tests.scripted import Json

COUNT = 40


def test_quadratic_kappa_is_cohens_of_verdicts_and_the_weighted_one_of_scores() -> None:
    from sklearn.metrics import cohen_kappa_score

    random = np.random.default_rng(3)
    for levels in (2, 5):
        one = random.integers(0, levels, 60)
        other = np.where(random.random(60) < 0.6, one, random.integers(0, levels, 60))
        expected = cohen_kappa_score(one, other, weights="quadratic")
        assert quadratic_kappa(one / (levels - 1), other / (levels - 1)) == pytest.approx(
            expected, abs=1e-12
        )
        gaps = [*one[:30], *[np.nan] * 30]
        assert quadratic_kappa(gaps, other) == pytest.approx(quadratic_kappa(one[:30], other[:30]))
    assert "the same value" in str(quadratic_kappa([1, 1], [1, 1]))
    assert "no row" in str(quadratic_kappa([None], [1]))


@pytest.mark.parametrize(
    ("differ", "rechecked", "harm", "is_broken", "said"),
    [
        (0, 300, 0.02, False, "the promise of 2.0 % holds: 0 of 300"),
        (1, 61, 0.02, False, "the promise of 2.0 % is not contradicted: 1 of 61"),
        (
            6,
            61,
            0.02,
            True,
            "the promise of 2.0 % no longer holds: 6 of 61 rechecked rows differ (at least",
        ),
        (6, 61, None, False, "6 of 61 rechecked rows differ (at least"),
        (0, 0, 0.02, False, "shown to both"),
    ],
)
def test_promise_is_broken_where_the_exact_lower_bound_says_so(
    differ: int, rechecked: int, harm: float | None, is_broken: bool, said: str
) -> None:
    words, found = describe_promise(1000, 200, rechecked, differ, harm)
    assert (said in words[-1], found) == (True, is_broken), words
    assert words[0].startswith("20.0 % of 1,000 rows were escalated")


def test_the_best_member_is_best_on_the_rows_that_the_jury_has_too(tmp_path: Path) -> None:
    """`shy` fails on all rows that the jury gets wrong, and is as good as the jury on the others."""
    rows = []
    for number in range(60):
        whole, bold = float(number < 48), float(number < 54)
        members = {"shy": 1.0, "bold": bold} if number < 40 else {"bold": bold}
        rows.append(
            row(f"row-{number}", whole, judgment=Judgment(whole, Status.OK, members=members))
        )
    judges = [{"judge_model_name": name} for name in ("shy", "bold")]
    settings = AnyJudgeSettings.model_validate({"judge": "jury", "judges": judges})
    report = report_jury(
        opened(tmp_path / "run", rows), settings, {f"row-{n}": 1.0 for n in range(60)}
    )
    assert [member.points for member in report.members] == [1.0, 0.9]
    (said,) = (words for words in report.words if "labelled rows" in words)
    assert re.match(r"On 60 labelled rows .*80\.0 % of points, .*bold, 90\.0 %: 10\.0 points", said)


def right(model: str, number: int) -> bool:
    """`good` errs in 2 of 40 rows, the others together in every third."""
    return number % 20 != 0 if model == "good" else (number + len(model)) % 3 != 0


def judge(request: Json, number: int) -> str:
    row = int(response_in(request).split()[-1])
    is_good = (row % 2 == 0) is right(request["model"], row)
    return f"[FEEDBACK] So. [SCORE] {5 if is_good else 1}"


def scored(path: Path, *flags: str) -> tuple[str, SavedRun]:
    rows = [{"prompt": f"Q{n}?", "response": f"Response {n}"} for n in range(COUNT)]
    data = write_lines(path / "data.jsonl", rows)
    lines = [
        {"uid": f"row-{n + 1}", "labeller": "ann", "label": float(n % 2 == 0)} for n in range(COUNT)
    ]
    labels = write_lines(path / "labels.jsonl", lines)
    with serving(judge) as endpoint:
        where = [data, f"--out={path / 'out.jsonl'}", f"--judge_base_url={endpoint.base_url}"]
        ended = score(*where, *flags, *([f"--labels={labels}"] if "--judges" in flags[0] else []))
    assert ended.code == 0, ended.said
    return " ".join(ended.said.split()), SavedRun.open(path / "out.run")


@pytest.mark.slow
def test_a_jury_of_unequal_members_is_said_to_harm(tmp_path: Path) -> None:
    prices = ("--judge_price_input=1", "--judge_price_output=1")
    fields = [
        {"judge_model_name": name, "judge_price_input": 1, "judge_price_output": 1}
        for name in ("good", "x", "y")
    ]
    said, run = scored(tmp_path, f"--judges={json.dumps(fields)}", "--jury_rule=majority", *prices)
    report = read_report(run)
    assert report is not None
    good, x, y = report.members
    accuracy = {
        name: sum(right(name, n) for n in range(COUNT)) / COUNT for name in ("good", "x", "y")
    }
    assert [each.points for each in report.members] == pytest.approx([*accuracy.values()])
    votes = [sum(right(name, n) for name in accuracy) >= 2 for n in range(COUNT)]
    assert report.points == pytest.approx(sum(votes) / COUNT)
    assert all(
        each.cost == pytest.approx(COUNT * 15e-6) and each.calls == COUNT for each in report.members
    )
    # Without good the others' majority of two is their mean, and a tie is half a point.
    without = [(right("x", n) + right("y", n)) / 2 for n in range(COUNT)]
    assert good.adds == pytest.approx((sum(votes) - sum(without)) / COUNT)
    assert report.kappas[0][0] == 1 and report.kappas[0][1] == report.kappas[1][0]
    assert "the jury harms: good alone" in said
    assert f"On 40 labelled rows the jury has {100 * sum(votes) / COUNT:.1f} % of points" in said
    assert "Agreement of members" in write_report(tmp_path / "out.run").read_text("utf-8")
    assert x.rows == y.rows == COUNT


@pytest.mark.slow
def test_a_cascade_whose_promise_is_broken_says_so(tmp_path: Path) -> None:
    said, run = scored(tmp_path, "--cascade=x,good", "--cascade_recheck=1", "--cascade_harm=0.02")
    report = read_report(run)
    assert report is not None
    differ = sum(right("x", n) is not right("good", n) for n in range(COUNT))
    assert (report.rows, report.escalated, report.rechecked, report.differ) == (
        COUNT,
        0,
        COUNT,
        differ,
    )
    assert f"the promise of 2.0 % no longer holds: {differ} of 40 rechecked rows differ" in said
    assert report.is_broken and "no longer holds" in (tmp_path / "out.run" / "run.log").read_text()


LEVELS = {str(level): f"{level}" for level in range(1, 6)}


@pytest.mark.slow
def test_jury_of_rubric_absolute_is_on_the_rubrics_scale_without_its_failed_member(
    tmp_path: Path,
) -> None:
    from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv

    random = Random(5)
    ratings = {(name, n): random.randint(1, 5) for name in "abc" for n in range(6)}

    def answer(request: Json, number: int) -> str:
        row = int(response_in(request).split()[-1])
        name = request["model"]
        return (
            "I cannot say."
            if (name, row) == ("c", 2)
            else f"[FEEDBACK] So. [SCORE] {ratings[name, row]}"
        )

    rows: list[dict[str, Any]] = [
        {
            "question": f"Q{n}?",
            "response": f"Response {n}",
            "score": 3,
            "rubric": {"criteria": "Good?", **LEVELS},
        }
        for n in range(6)
    ]
    flags = ("--env.judges=a,b,c", "--env.score_responses=True", "--env.jury_rule=median")
    judged = evaluate(RubricAbsoluteEnv, tmp_path, *flags, rows=rows, judge=answer)
    assert judged.code == 0, judged.said
    for n, sample in enumerate(RunFiles(tmp_path / "run").samples):
        names = "ab" if n == 2 else "abc"
        assert sample["score"] == pytest.approx(np.median([ratings[name, n] for name in names]))
        assert set(sample["members"]) == {*names}
    mae = np.mean([abs(sample["score"] - 3) for sample in RunFiles(tmp_path / "run").samples])
    assert judged.metrics["mae"] == pytest.approx(mae)


@pytest.mark.slow
def test_jury_of_arena_hard_has_the_win_rate_of_its_score(tmp_path: Path) -> None:
    from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv

    def answer(request: Json, number: int) -> str:
        """`a` chooses the answer of row 0, `b` that of neither, `c` that of both rows."""
        shown = request["messages"][-1]["content"]
        first = shown.index("the policy's") < shown.index("the baseline's")
        wins = {"a": "Row 0" in shown, "b": False, "c": True}[request["model"]]
        return "[[A>B]]" if wins is first else "[[B>A]]"

    prompts = [{"uid": f"r{n}", "prompt": f"Row {n}?"} for n in range(2)]
    baseline = write_lines(
        tmp_path / "base.jsonl",
        [{"uid": f"r{n}", "answer": "the baseline's answer is this"} for n in range(2)],
    )
    data = write_lines(tmp_path / "prompts.jsonl", prompts)
    flags = (
        f"--env.eval_prompt_dataset={data}",
        f"--env.eval_baseline_dataset={baseline}",
        "--env.judges=a,b,c",
    )
    with serving(answer) as judging, serving("the policy's answer is that") as answering:
        from tests.command import in_process

        urls = (
            f"--env.judge_base_url={judging.base_url}",
            f"--openai.base_url={answering.base_url}",
        )
        into = f"--env.data_dir_to_save_evals={tmp_path / 'run'}"
        ended = in_process(
            "evaluate", *flags, *urls, into, "--env.min_response_length=0", env_type=ArenaHardEnv
        )
    assert ended.code == 0, ended.said
    files = RunFiles(tmp_path / "run")
    assert [(sample["score"], sample["label"]) for sample in files.samples] == [
        (pytest.approx(1 / 3), "win"),
        (pytest.approx(-1 / 3), "loss"),
    ]
    assert files.metrics["overall_winrate"] == pytest.approx(0.5)
