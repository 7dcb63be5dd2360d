"""Audits of finished runs: choices in both orders, scores with gold, labels of aspects; what the calls took."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.metrics import GoldLabel
from judgegym.engine.records import SampleRun
from judgegym.judges.core.judgment import CallRun
from judgegym.llm.usage import Usage
from judgegym.reports.results.run import SavedRun
from judgegym_trials.audit.command import main
from judgegym_trials.audit.features import LENGTH
from judgegym_trials.audit.reading import NO_GOLD
from judgegym_trials.audit.runs import read_run_judgments
from tests.command import in_process
from tests.core.reports.compare.written import row, run

TEXTS = {"answer A": "one", "answer B (right)": "two " * 9, "answer C": "three"}


def call(seconds: float, cost: float | None) -> CallRun:
    return CallRun(latency_s=seconds, attempts=1, usage=Usage(10, 5, cost))


def choice(uid: str, letters: tuple[str | None, str | None], **fields: Any) -> Any:
    gold = tuple(
        GoldLabel.from_labels("B", letter, name)
        for letter, name in zip(letters, ("as_shown", "reversed"), strict=True)
    )
    calls = SampleRun(1.0, (call(1.0, 0.01), call(3.0, 0.02)))
    return row(uid, 1.0, question=uid, gold=gold, texts=TEXTS, run=calls, **fields)


def test_letters_are_numbers_of_responses_in_both_orders(tmp_path: Path) -> None:
    path = run(
        tmp_path / "r",
        [choice("a", ("B", "B")), choice("b", ("A", "A")), choice("c", (None, "C")), row("d", 1.0)],
    )
    found = read_run_judgments(SavedRun.open(path))
    assert found.judge == "a-policy" and found.left_out == {NO_GOLD: 1}
    assert found.gold.tolist() == [1, 1, 1] and found.counts.tolist() == [3, 3, 3]
    assert found.first[:2].tolist() == [[1, 1], [0, 2]] and found.first[2, 1] == 0
    assert found.features[LENGTH].shape == (3, 3)
    assert [[*map(float, each)] for each in found.operation["seconds_per_call"]] == [
        [4.0] * 3,
        [2.0] * 3,
    ]
    dollars, rows = found.operation["dollars_per_row"]
    assert dollars.tolist() == pytest.approx([0.03] * 3) and rows.tolist() == [1.0] * 3
    assert found.operation.keys() == {"seconds_per_call", "dollars_per_row"}, "there is no ledger"


def test_each_label_of_a_row_is_a_row_of_the_audit(tmp_path: Path) -> None:
    labels = (
        GoldLabel.from_labels("yes", "yes", "clear"),
        GoldLabel.from_labels("no", None, "short"),
    )
    rows = [
        row(f"r{n}", 1.0, question=f"q{n}", gold=labels, texts={"answer": "words"}, category=None)
        for n in range(3)
    ]
    found = read_run_judgments(SavedRun.open(run(tmp_path / "r", rows)), "another")
    assert (
        found.kind == "label"
        and found.judge == "another"
        and found.uids[:2] == ["r0:clear", "r0:short"]
    )
    assert found.clusters.tolist() == [0, 0, 1, 1, 2, 2] and found.categories[:2] == [
        "clear",
        "short",
    ]


@pytest.mark.slow
def test_a_run_of_evaluate_and_a_scored_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "run"
    flags = ("--offline", "--env.swap_evaluate=True", f"--env.data_dir_to_save_evals={saved}")
    from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv

    assert in_process("evaluate", *flags, env_type=PairwiseJudgementEnv).code == 0
    metrics = json.loads((saved / "metrics.json").read_bytes())["results"]["all"]
    assert main([str(saved), f"--json={tmp_path / 'a.json'}"]) in (0, 4)
    found = {
        check["name"]: check for check in json.loads((tmp_path / "a.json").read_bytes())["checks"]
    }
    assert found["position_consistency"]["value"] == pytest.approx(
        metrics["eval/position_consistency_rate"]
    )
    assert found["redraw_rate"]["value"] == 0 and found["seconds_per_call"]["value"] > 0
    from judgegym.datasets.score.command import main as score

    rows = [
        {"prompt": f"Q{n}", "response": "word " * (n + 1), "stars": 1 + n % 5, "rubric": "Good?"}
        for n in range(20)
    ]
    data, out = tmp_path / "rows.jsonl", tmp_path / "scored.jsonl"
    data.write_text("".join(json.dumps(each) + "\n" for each in rows))
    assert score([str(data), f"--out={out}", "--offline", "--gold_column=stars"], prog="score") == 0
    capsys.readouterr()
    assert main([str(out), "--json=-"]) in (0, 4)
    audit = json.loads(capsys.readouterr().out)
    assert audit["kind"] == "score" and audit["rows"] == 20


def test_of_a_run_that_is_not_finished_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = run(tmp_path / "r", [choice("a", ("B", "B")), choice("b", ("A", "A"))])
    assert read_run_judgments(SavedRun.open(path)).source == str(path) and not caplog.messages
    (path / "metrics.json").unlink()
    source = read_run_judgments(SavedRun.open(path)).source
    assert source.startswith(f"{path}, ") and "not finished" in source
    (said,) = caplog.messages
    assert said.startswith(f"{source}: ") and "2 rows" in said


def test_a_run_without_gold_says_which_have_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run(tmp_path / "r", [row("a", 1.0), row("b", 0.0)])
    assert main([str(path)]) == 2
    assert re.search(
        "no row has .*pairwise_judgement, .*score --gold_column", capsys.readouterr().err
    )
    assert main([str(path), "--prompt=x"]) == 2
    assert "has one prompt" in capsys.readouterr().err
