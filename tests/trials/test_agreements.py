"""`score --gold_column`, `--anchors` and `audit` count the same agreements on the same rows, at half steps too."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from judgegym_trials.audit.command import main
from tests.command import called, clean_environment, serving, write_lines
from tests.core.datasets.scoring import Scoring, rated, response_in
from tests.core.judges.rubrics.test_judge import weighed
from tests.scripted import Json, Reply


def by_halves(request: Json, number: int) -> Reply:
    """A judge whose probabilities make the score that the response says."""
    score = float(response_in(request).split()[0])
    low, share = math.floor(score), score % 1 or 1e-12
    return weighed([(str(low), 1 - share), (str(low + 1), share)], sampled=str(low))


def audited(json_file: Path, *words: object) -> float:
    """How many verdicts an audit says are right."""
    ended = called(lambda: main([*map(str, words)], prog="judgegym audit"), clean_environment())
    assert ended.code in (0, 4), ended.said
    return sum(row["right"][0] for row in json.loads(json_file.read_bytes())["judgments"])


@pytest.mark.slow  # two runs and three audits
@pytest.mark.parametrize(
    ("said", "golds", "scale", "agreeing"),
    [
        ((2.5, 3.0, 3.5), (2.5, 3.0, 3.5), (), 5),  # 3 is the level of 2.5, and 4 that of 3.5
        ((0.0, 1.0, 1.5), (0.0, 0.4, 0.5, 1.0), ("--scale_min=0",), 4),
    ],
)
def test_all_commands_count_the_same_agreements(
    tmp_path: Path,
    said: tuple[float, ...],
    golds: tuple[float, ...],
    scale: tuple[str, ...],
    agreeing: int,
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "uid": f"{score}/{gold}",
            "prompt": f"Q {gold}",
            "response": f"{score} points",
            "gold": gold,
            "score": score,
        }
        for score in said
        for gold in golds
    ]
    anchors = write_lines(
        tmp_path / "anchors.jsonl", [{**row, "label": row["gold"]} for row in rows]
    )
    recorded = write_lines(tmp_path / "recorded.jsonl", rows)
    with serving(by_halves) as judge:
        scoring, words = Scoring(tmp_path, judge), ("--weighting=logprobs", *scale)
        ended = scoring("--gold_column=gold", f"--anchors={anchors}", *words, rows=rows)
        assert ended.code == 0, ended.said
        out, url = tmp_path / "audit", f"--judge_base_url={judge.base_url}"
        called_audit = (scoring.data, "--judge=rubric", "--out", out, url, *words)
        counts = {
            "score": sum(sample["gold"][0]["agrees"] for sample in scoring.samples),
            "anchors": scoring.run.report["config_general"]["anchors"]["agreeing"],
            "audit of the run": audited(
                tmp_path / "run.json", scoring.out, f"--json={tmp_path / 'run.json'}"
            ),
            "audit that calls": audited(out / "audit.json", *called_audit),
        }
        if not scale:  # which recorded rows do not say
            counts["audit of rows"] = audited(
                tmp_path / "rows.json", recorded, f"--json={tmp_path / 'rows.json'}"
            )
    assert counts == dict.fromkeys(counts, agreeing)


@pytest.mark.slow
@pytest.mark.parametrize("golds", [("yes", "NO", 1, "0"), (1, 0, 1, 0), (True, False, "Yes", "no")])
def test_the_labels_of_an_aspect_are_read_in_the_same_way(
    tmp_path: Path, golds: tuple[Any, ...]
) -> None:
    rows = [
        {"uid": str(n), "prompt": f"Q {n}", "response": f"r {n}", "gold": gold}
        for n, gold in enumerate(golds)
    ]
    labelled = [{**row, "label": row["gold"]} for row in rows if not isinstance(row["gold"], bool)]
    anchors = write_lines(tmp_path / "anchors.jsonl", labelled)
    with serving(lambda request, number: '{"reason": "-", "verdict": 1}') as judge:
        scoring = Scoring(tmp_path, judge)
        words = ("--judge=aspect", "--aspects=harmfulness", "--gold_column=gold")
        ended = scoring(*words, f"--anchors={anchors}", rows=rows)
        url, out = f"--judge_base_url={judge.base_url}", tmp_path / "audit"
        assert audited(out / "audit.json", scoring.data, "--out", out, url, *words) == 2
    assert ended.code == 0, ended.said
    assert [sample["gold"][0]["agrees"] for sample in scoring.samples] == [True, False, True, False]
    assert scoring.run.report["config_general"]["anchors"]["agreeing"] == len(labelled) / 2
    assert audited(tmp_path / "run.json", scoring.out, f"--json={tmp_path / 'run.json'}") == 2


@pytest.mark.slow
def test_labels_of_tables_are_numbers(tmp_path: Path) -> None:
    anchors = tmp_path / "anchors.csv"
    anchors.write_text(
        "prompt,response,label\nQ 1,3 points,3\nQ 2,3 points,3.4\nQ 3,3 points,4\nQ 4,3 points,\n"
    )
    with serving(rated(lambda response: 3)) as judge:
        scoring = Scoring(tmp_path, judge)
        ended = scoring(f"--anchors={anchors}", rows=[{"prompt": "Q", "response": "r"}])
    assert "agrees with 2 of 3 labels" in ended.said
