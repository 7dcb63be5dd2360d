"""Cards of imported judges over HTTP: what is asked, and the scores of recorded replies."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from judgegym.cli.judge_cards import command
from judgegym.judges.prompt_files.card import load_card
from judgegym_trials.attacks.command import main as attack
from judgegym_trials.audit.command import main as audit
from tests.command import called, clean_environment, serving
from tests.core.datasets.scoring import Scoring, score
from tests.scripted import Json, Reply, completion

LABEL = {
    "type": "label_model",
    "name": "polite",
    "model": "gpt-6-luna",
    "input": [{"role": "user", "content": "Is {{sample.output_text}} polite?"}],
    "labels": ["polite", "rude", "unclear"],
    "passing_labels": ["polite", "unclear"],
    "sampling_params": {"temperature": 0.25, "seed": 7},
}
CHECK = {
    "type": "string_check",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.reference }}",
    "operation": "like",
}
MULTI = {
    "type": "multi",
    "graders": {"polite": LABEL, "same": CHECK},
    "calculate_output": "0.25 * same + 0.75 * polite",
}
ROWS = [
    {"prompt": "Q1", "response": "polite: Rome", "reference": "Rome"},
    {"prompt": "Q2", "response": "rude: Rome", "reference": "Rome"},
    {"prompt": "Q3", "response": "unclear: Oslo", "reference": "Rome"},
    {"prompt": "Q4", "response": "rude: Oslo", "reference": "Rome"},
]
READ = {"polite": 1.0, "rude": 0.0, "unclear": 1.0}


def find_label(request: Json) -> str:
    """The label of a response, which begins with it."""
    shown = request["messages"][-1]["content"]
    return next(label for label in READ if f"{label}: " in shown)


def reply(request: Json, number: int) -> str:
    """A judge's recorded reply in the form of the schema."""
    return json.dumps({"explanation": "So.", "label": find_label(request)})


def import_card(folder: Path, values: Any) -> Path:
    source, card = folder / "grader.json", folder / "card.yaml"
    source.write_text(json.dumps(values), "utf-8")
    words = ["import", str(source), "--out", str(card)]
    assert command.main(words, prog="judgegym judge") == 0
    return card


def test_a_label_model_scores_as_its_format_does(tmp_path: Path) -> None:
    card = import_card(tmp_path, LABEL)
    with serving(reply) as judge:
        scoring = Scoring(tmp_path, judge)
        scoring("--judge", card, rows=ROWS).successful()
    expected = [READ[str(row["response"]).partition(":")[0]] for row in ROWS]
    assert scoring.column("judge/score") == expected
    body = judge.bodies[0]
    assert (body["model"], body["temperature"], body["seed"]) == ("gpt-6-luna", 0.25, 7)


def test_multi_scores_as_its_formula_does(tmp_path: Path) -> None:
    card = import_card(tmp_path, MULTI)
    with serving(reply) as judge:
        scoring = Scoring(tmp_path, judge)
        scoring("--judge", card, rows=ROWS).successful()
    expected = [
        0.25 * float(str(row["reference"]) in str(row["response"]))
        + 0.75 * READ[str(row["response"]).partition(":")[0]]
        for row in ROWS
    ]
    assert scoring.column("judge/score") == pytest.approx(expected)


def test_a_card_of_any_kind_runs_offline(tmp_path: Path) -> None:
    card = import_card(tmp_path, MULTI)
    with serving(reply) as judge:
        scoring = Scoring(tmp_path, judge)
        scoring.data.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), "utf-8")
    score(scoring.data, "--out", scoring.out, "--judge", card, "--offline").successful()
    assert len(scoring.rows) == len(ROWS)


def test_an_audit_becomes_evidence_and_a_changed_prompt_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = import_card(tmp_path, LABEL)
    rows = [{**row, "gold": n % 2} for n, row in enumerate(ROWS * 6)]
    rows = [{**row, "prompt": f"{row['prompt']} {n}"} for n, row in enumerate(rows)]
    with serving(reply) as judge:
        scoring = Scoring(tmp_path, judge)
        scoring("--judge", card, "--gold_column=gold", rows=rows).successful()
    assert audit([str(scoring.out), "--card", str(card)]) in (0, 4)
    evidence = load_card(card).evidence
    assert [(entry.by, entry.rows, entry.model) for entry in evidence] == [
        ("audit", len(rows), "gpt-6-luna")
    ]
    assert evidence[0].figures
    words = ["check", str(card)]
    assert command.main(words, prog="judgegym judge") == 0
    card.write_text(card.read_text("utf-8").replace("polite?", "kind?"), "utf-8")
    capsys.readouterr()
    assert command.main(words, prog="judgegym judge") == 4
    assert "have changed since" in capsys.readouterr().out
    assert audit([str(scoring.out), "--card", str(card)]) == 2
    assert "has another prompt" in capsys.readouterr().err


def test_repeated_rows_become_evidence_with_price_and_served_model(tmp_path: Path) -> None:
    card = import_card(tmp_path, LABEL)
    rows = [{**row, "repeat": number} for row in ROWS[:2] for number in range(2)]
    asked: Counter[str] = Counter()

    def waver(request: Json, number: int) -> Reply:
        """Change the mind about the first row."""
        label = find_label(request)
        asked[label] += 1
        if label == "polite" and asked[label] == 2:
            label = "rude"
        text = json.dumps({"explanation": "So.", "label": label})
        return Reply(body={**completion(text), "model": "luna-2026-11"})

    prices = ("--judge_price_input=1000000", "--judge_price_output=0")
    with serving(waver) as judge:
        scoring = Scoring(tmp_path, judge)
        words = ("--judge", card, "--card", card, "--repeat_column=repeat", *prices)
        scoring(*words, rows=rows).successful()
    (evidence,) = load_card(card).evidence
    assert (evidence.by, evidence.rows, evidence.model) == ("repeat", 2, "gpt-6-luna")
    assert evidence.served == ("luna-2026-11",)
    assert evidence.figures["noise"].value == 0.5
    assert evidence.figures["repeatability"].value == 0.5
    assert evidence.figures["price_per_row"].value > 0


def test_a_card_of_any_kind_gains_evidence_of_its_own_judge_alone(tmp_path: Path) -> None:
    card = import_card(tmp_path, MULTI)
    rows = [{**row, "repeat": number} for row in ROWS for number in range(2)]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    words = (data, "--offline", "--card", card, "--repeat_column=repeat")
    score(*words, "--judge", card, "--out", tmp_path / "a.jsonl").successful()
    assert [entry.by for entry in load_card(card).evidence] == ["repeat"]
    other = score(*words, "--judge=rule", "--rule=exact", "--out", tmp_path / "b.jsonl")
    assert other.code == 2
    assert "--card" in other.err
    assert not (tmp_path / "b.jsonl").exists()
    without = score(data, "--offline", f"--card={card}", f"--judge={card}", "--out=c.jsonl")
    assert without.code == 2
    assert "--repeat_column" in without.err


def test_an_audit_that_calls_becomes_evidence(tmp_path: Path) -> None:
    card = import_card(tmp_path, LABEL)
    rows = [{**row, "gold": READ[str(row["response"]).partition(":")[0]]} for row in ROWS]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    words = [str(data), f"--judge={card}", f"--card={card}", f"--out={tmp_path / 'out'}"]
    ended = called(lambda: audit([*words, "--offline"]), clean_environment())
    assert ended.code in (0, 4), ended.err
    (evidence,) = load_card(card).evidence
    assert (evidence.by, evidence.rows) == ("audit", len(ROWS))
    assert "exact_rate" in evidence.figures


def test_another_system_prompt_is_another_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = import_card(tmp_path, LABEL)
    rows = [{**row, "gold": number % 2} for number, row in enumerate(ROWS)]
    with serving(reply) as judge:
        scoring = Scoring(tmp_path, judge)
        words = ("--judge", card, "--gold_column=gold", "--judge_system_prompt=Be mild.")
        scoring(*words, rows=rows).successful()
    assert audit([str(scoring.out), "--card", str(card)]) == 2
    assert "judge_system_prompt" in capsys.readouterr().err
    assert load_card(card).evidence == ()


def test_attacks_become_evidence(tmp_path: Path) -> None:
    card = import_card(tmp_path, LABEL)
    data = tmp_path / "data.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), "utf-8")
    words = [str(data), f"--judge={card}", f"--card={card}", f"--out={tmp_path / 'out'}"]
    ended = called(
        lambda: attack([*words, "--offline", "--only=constant_answer"], prog="judgegym attack"),
        clean_environment(),
    )
    assert ended.code in (0, 4), ended.err
    evidence = load_card(card).evidence[0]
    assert (evidence.by, evidence.rows) == ("attack", len(ROWS))
    assert evidence.judge == load_card(card).digest
