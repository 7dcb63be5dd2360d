"""`judgegym judge import`: judges of other tools become cards, or one line says why not."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judgegym.cli.judge_cards import command
from judgegym.cli.judge_cards.formats import FORMATS
from judgegym.cli.judge_cards.formulas import convert_formula
from judgegym.cli.judge_cards.imports import NotCarriedError
from judgegym.judges.prompt_files.card import JudgeCard, load_card
from judgegym.judges.rules.own_function import RuleTask, load_function
from judgegym.judges.scorers.settings import AnyJudgeSettings

UNIT = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
USER = "Is this reply polite?\n\n{{ sample.output_text }}"
LABEL = {
    "type": "label_model",
    "name": "polite",
    "model": "gpt-6-luna",
    "input": [{"role": "developer", "content": "Be strict."}, {"role": "user", "content": USER}],
    "labels": ["polite", "rude", "unclear"],
    "passing_labels": ["polite", "unclear"],
}
SCORE = {
    "type": "score_model",
    "name": "quality",
    "model": "gpt-6-luna",
    "input": [{"role": "user", "content": USER}],
    "range": [1, 7],
}
CHECK = {
    "type": "string_check",
    "name": "same",
    "input": "{{ sample.output_text }}",
    "reference": "{{item.reference}}",
    "operation": "eq",
}
PYTHON = {
    "type": "python",
    "source": "def grade(sample, item):\n    return float(item['answer'] in sample['output_text'])",
}


def run_import(folder: Path, values: object, *words: str, name: str = "judge.json") -> int:
    path = folder / name
    text = values if isinstance(values, str) else json.dumps(values)
    path.write_text(text, "utf-8")
    out = str(folder / "card.yaml")
    return command.main(["import", str(path), "--out", out, *words], prog="judgegym judge")


def import_card(folder: Path, values: object, *words: str, name: str = "judge.json") -> JudgeCard:
    assert run_import(folder, values, *words, name=name) == 0
    path = folder / "card.yaml"
    AnyJudgeSettings(judge=str(path))  # every card opens
    return load_card(path)


def test_label_model(tmp_path: Path) -> None:
    card = import_card(tmp_path, LABEL)
    assert card.prompt_file is not None
    assert card.prompt_file.scale == {"polite": 1.0, "rude": 0.0, "unclear": 1.0}
    assert card.prompt_file.system == "Be strict."
    assert card.prompt_file.prompt == "Is this reply polite?\n\n{response}"
    assert card.model == "gpt-6-luna"


def test_score_model_of_whole_numbers_says_what_is_no_verdict(tmp_path: Path) -> None:
    card = import_card(tmp_path, SCORE)
    assert card.prompt_file is not None
    assert card.prompt_file.scale == (1, 7)
    assert card.imported is not None
    assert "range" in card.imported.not_carried[0]


def test_a_placeholder_within_a_sentence_gets_a_section_and_a_note(tmp_path: Path) -> None:
    text = "Does {{sample.output_text}} answer {{ item.question }}? Write {name} first."
    card = import_card(tmp_path, {**LABEL, "input": [{"role": "user", "content": text}]})
    assert card.prompt_file is not None
    filled = card.prompt_file.template.fill({"prompt": "Why?", "response": "So."})
    shown = filled.messages[-1]["content"]
    assert 'Does "Answer" answer "Question"? Write {name} first.' in str(shown)
    assert card.imported is not None
    assert "the wording differs" in card.imported.differs[0]


@pytest.mark.parametrize("operation", ["eq", "ne", "like", "ilike"])
def test_string_check_equals_its_own_reading(tmp_path: Path, operation: str) -> None:
    import_card(tmp_path, {**CHECK, "operation": operation})
    apply = load_function(f"{tmp_path / 'card_rule.py'}:score")
    texts = ["", " ", "Paris", "paris", "Paris ", "in Paris.", "PARIS\n", "{{x}}", '"', "É", "é"]
    for response in texts:
        for reference in texts:
            expected = {
                "eq": response == reference,
                "ne": response != reference,
                "like": reference in response,
                "ilike": reference.lower() in response.lower(),
            }[operation]
            task = RuleTask("", response, reference, None, (), "")
            assert apply(task).score == float(expected)


def test_python_gets_the_columns_that_the_user_names(tmp_path: Path) -> None:
    import_card(tmp_path, PYTHON, "--field", "answer=reference")
    apply = load_function(f"{tmp_path / 'card_rule.py'}:score")
    assert apply(RuleTask("", "It is 4.", "4", None, (), "")).score == 1.0
    with pytest.raises(KeyError):
        apply(RuleTask("", "It is 4.", None, None, (), ""))


def test_multi(tmp_path: Path) -> None:
    graders = {"polite": LABEL, "same": CHECK}
    multi = {"type": "multi", "graders": graders, "calculate_output": "(polite * 3 + same) / 4"}
    card = import_card(tmp_path, multi)
    settings = AnyJudgeSettings(judge=str(tmp_path / "card.yaml"))
    assert [part.name for part in settings.part_settings] == ["polite", "same"]
    assert card.judge["combine"] == "weighted_sum"


@pytest.mark.parametrize(
    ("formula", "combine"),
    [
        ("a * 0.3 + 0.7 * b", "weighted_sum"),
        ("(a + b) / 2", "weighted_sum"),
        ("a / 4 + b - b / 4", "weighted_sum"),
        ("a * b", "product"),
        ("min(a, b)", "min"),
    ],
)
def test_formulas_that_are_carried_compute_the_same(formula: str, combine: str) -> None:
    combination = convert_formula(formula, UNIT)
    assert combination.combine == combine
    rng = random.Random(3)
    for _ in range(20):
        scores = {"a": rng.random(), "b": rng.random()}
        expected = eval(formula, {"min": min}, dict(scores))
        chosen = [scores[name] for name in combination.weights]
        combined = {
            "weighted_sum": sum(scores[n] * w for n, w in combination.weights.items()),
            "product": math.prod(chosen),
            "min": min(chosen),
        }[combine]
        assert combined == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "formula",
    ["a + b", "a - b", "max(a, b)", "a * a", "a * 0.5 + 0.5", "c", "sqrt(a)", "a +", "a if b", "1"],
)
def test_any_other_formula_is_refused(formula: str) -> None:
    with pytest.raises(NotCarriedError, match="calculate_output"):
        convert_formula(formula, UNIT)


REWARDKIT = """
[judge]
judge = "gpt-6-luna"
files = ["/app/reply.txt"]
[[criterion]]
description = "Is the reply polite?"
weight = 2
[[criterion]]
description = "How wordy is it?"
type = "likert"
points = 3
negate = true
"""
CRITERIA = [{"name": "cites", "requirement": "Cites a source."}, {"requirement": "Insults."}]
HEALTH = {"prompt": "Hi", "rubrics": [{"criterion": "Greets.", "points": 5, "tags": []}]}
RAR = {"question": "Hi", "rubric": [{"title": "a", "description": "Greets.", "weight": 5}]}
INSPECT = "{question}\n\nSubmission: {answer}\n\nExpected: {criterion}\n\nEnd with GRADE: C or I."
VERIFIERS = {
    "prompt": "Q: {question}\n\nExpected: {answer}\n\nReply: {response}\n\nSay yes or no.",
    "scale": "yes/no",
    "verdict": {"after": "VERDICT:"},
}


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("judge.toml", REWARDKIT, {"kind": "checklist", "formula": "rar"}),
        ("judge.json", CRITERIA, {"kind": "checklist", "formula": "weighted_mean"}),
        ("judge.json", [HEALTH], {"kind": "checklist", "formula": "healthbench"}),
        ("judge.json", RAR, {"kind": "checklist", "formula": "rar"}),
        ("judge.txt", INSPECT, {}),
        ("judge.json", VERIFIERS, {}),
        ("judge.json", {"id": "rubric", "criteria": [{"text": "Greets."}]}, {"kind": "checklist"}),
    ],
)
def test_the_other_formats(
    tmp_path: Path, name: str, values: object, expected: Mapping[str, Any]
) -> None:
    card = import_card(tmp_path, values, name=name)
    assert expected.items() <= card.judge.items()
    assert card.imported is not None


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({**LABEL, "type": "text_similarity", "evaluation_metric": "bleu"}, "evaluation_metric"),
        ({**SCORE, "range": [0, 1]}, "range: [0, 1]"),
        ({**LABEL, "passing_labels": ["kind"]}, "passing_labels: 'kind' is none"),
        ({**LABEL, "passing_labels": LABEL["labels"]}, "two different scores"),
        ({**LABEL, "input": [{"role": "user", "content": "Hi"}]}, "no message shows"),
        ({**LABEL, "input": [{"role": "assistant", "content": USER}]}, "role 'assistant'"),
        ({**CHECK, "reference": "{{ item.gold }}"}, "--field gold=reference"),
        ({**CHECK, "operation": "near"}, "expected one of eq"),
        ({"type": "python", "source": "x = 1"}, "no function grade"),
        ({"type": "multi", "graders": {"a": CHECK}, "calculate_output": "b"}, "b is no grader"),
        ({"type": "unheard"}, "no known format"),
        ({"id": "decision", "levels": 3}, "id: decision"),
        ({**LABEL, "labels": ["a", 1], "passing_labels": ["a"]}, "labels: expected texts"),
        ({**LABEL, "sampling_params": {"temperature": "hot"}}, "sampling_params.temperature: "),
        ({**LABEL, "input": [{"role": "user", "content": [{"type": "text"}]}]}, "input[0]"),
        ({**CHECK, "operation": ["eq"]}, "operation: "),
        ({"type": ["label_model"]}, "no known format"),
        (
            {"type": "python", "source": "def score(x): ...\ndef grade(a, b): return score(a)"},
            "source: score is",
        ),
        ("{", "expected JSON"),
        ({"id": "rubric", "criteria": [{"text": "Greets."}], "weights": 3}, "weights: "),
        ({"template": INSPECT, "model": ""}, "judge_model_name"),
    ],
)
def test_what_cannot_be_carried_is_one_line_and_no_card(
    tmp_path: Path, values: object, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_import(tmp_path, values) == 2
    message = capsys.readouterr().err
    assert problem in message
    assert message.count("\n") == 1
    assert not (tmp_path / "card.yaml").exists()


def test_a_card_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_card(tmp_path, LABEL)
    text = (tmp_path / "card.yaml").read_text("utf-8")
    assert run_import(tmp_path, CHECK) == 2
    assert "card.yaml exists" in capsys.readouterr().err
    assert (tmp_path / "card.yaml").read_text("utf-8") == text
    assert not (tmp_path / "card_rule.py").exists()


@pytest.mark.parametrize("action", ["show", "check", "export"])
def test_a_wrong_value_of_a_card_is_one_line(
    tmp_path: Path, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "card.yaml"
    path.write_text("judge: {kind: checklist, formula: none, criteria: [Is polite.]}", "utf-8")
    assert command.main([action, str(path)], prog="judgegym judge") == 2
    message = capsys.readouterr().err
    assert f"{path}: formula" in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("flag", ["--out=a.yaml", "--format=openai", "--field=a=reference"])
def test_flags_of_import_are_refused_elsewhere(
    tmp_path: Path, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["show", str(tmp_path / "card.yaml"), flag], prog="judgegym judge")
    assert ended.value.code == 2
    assert flag.split("=", 1)[0] in capsys.readouterr().err


def test_help_names_the_formats(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--help"], prog="judgegym judge")
    shown = capsys.readouterr().out
    assert all(name in shown for name in FORMATS)


def test_show_check_and_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = import_card(tmp_path, LABEL)
    path = str(tmp_path / "card.yaml")
    capsys.readouterr()
    assert command.main(["show", path], prog="judgegym judge") == 0
    assert card.digest in capsys.readouterr().out
    assert command.main(["check", path], prog="judgegym judge") == 0
    assert command.main(["export", path], prog="judgegym judge") == 0
    assert json.loads(capsys.readouterr().out)["digest"] == card.digest


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("values", [[], [None], 3, None, "text", {}])
def test_values_of_another_format_are_one_line(
    tmp_path: Path, name: str, values: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_import(tmp_path, values, "--format", name) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('type = "rubric"\nlevels = ["a", "a", "b"]\n', "levels: "),
        ('negate = "false"\n', "negate: "),
        ("[scoring]\naggregation = 3\n", "scoring.aggregation: 3"),
    ],
)
def test_a_wrong_table_is_one_line(
    tmp_path: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "judge.toml"
    path.write_text(f'[[criterion]]\ndescription = "Is it?"\n{text}', "utf-8")
    words = ["import", str(path), "--out", str(tmp_path / "card.yaml")]
    assert command.main(words, prog="judgegym judge") == 2
    assert problem in capsys.readouterr().err
