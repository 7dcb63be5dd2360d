"""Cards: prompt files with a judge's section and evidence, and cards of other kinds."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
import yaml

from judgegym.judges.prompt_files.card import ImportNote, JudgeCard, load_card
from judgegym.judges.prompt_files.evidence import Evidence, Figure
from judgegym.judges.prompt_files.evidence_file import add_evidence
from judgegym.judges.prompt_files.file import PromptFile
from judgegym.judges.scorers.settings import AnyJudgeSettings
from tests.prompt_files import GRADE, SCORE

DIGEST = f"sha256:{'0' * 64}"
SECTION = "judge:\n  samples_per_item: 3\n  endpoint: {model: luna, temperature: 0.5}\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "shop.yaml"
    path.write_text(text, "utf-8")
    return path


def measured(judge: str, model: str = "luna") -> Evidence:
    figures = {"accuracy": Figure(value=0.9, low=0.8, high=0.95)}
    return Evidence(
        by="audit",
        date=date(2026, 11, 29),
        rows=40,
        data=DIGEST,
        judge=judge,
        model=model,
        figures=figures,
    )


def test_a_card_sets_the_judge_and_the_command_line_beats_it(tmp_path: Path) -> None:
    path = write(tmp_path, GRADE + SECTION)
    settings = AnyJudgeSettings(judge=str(path))
    assert (settings.judge_model_name, settings.judge_temperature) == ("luna", 0.5)
    assert settings.vote_count() == 3
    settings = AnyJudgeSettings(judge=str(path), judge_model_name="sol", samples_per_item=1)
    assert (settings.judge_model_name, settings.vote_count()) == ("sol", 1)


def test_a_card_may_hold_a_judge_of_any_kind(tmp_path: Path) -> None:
    path = write(tmp_path, "judge: {kind: checklist, formula: rar, criteria: [Is polite.]}\n")
    settings = AnyJudgeSettings(judge=str(path))
    assert (settings.judge, settings.formula) == ("checklist", "rar")  # type: ignore[attr-defined]


def test_evidence_changes_neither_settings_nor_digest(tmp_path: Path) -> None:
    path = write(tmp_path, f"# mine\n{GRADE}{SECTION}")
    before, digest = AnyJudgeSettings(judge=str(path)).model_dump(), load_card(path).digest
    add_evidence(path, measured(digest))
    add_evidence(path, measured(digest))
    card = load_card(path)
    assert card.digest == digest
    assert card.evidence == (measured(digest), measured(digest))
    assert [*card.explain_staleness()] == []
    assert AnyJudgeSettings(judge=str(path)).model_dump() == before
    assert path.read_text("utf-8").startswith(f"# mine\n{GRADE}{SECTION}evidence:\n")


@pytest.mark.parametrize(
    "text",
    ["a\tb\nc", "a\u2028b\x85c", " a\n  b ", "- a: b\n# c", "é\n\n\n中 ", "yes", "'\"`\\@|>%"],
)
def test_a_written_card_is_read_as_it_was(tmp_path: Path, text: str) -> None:
    values = {
        "prompt": f"{text}\n\n[Answer]\n{{response}}",
        "scale": "yes/no",
        "verdict": {"within": "brackets"},
        "system": text,
    }
    prompt = PromptFile.model_validate(values)
    note = ImportNote(format="openai", name=text, differs=(text,))
    card = JudgeCard(prompt_file=prompt, judge={"judge_system_prompt": text}, imported=note)
    read = load_card(write(tmp_path, card.to_yaml()))
    assert (read.prompt_file, read.judge, read.imported) == (prompt, card.judge, note)


def test_evidence_before_another_section_is_replaced_alone(tmp_path: Path) -> None:
    path = write(tmp_path, GRADE)
    add_evidence(path, measured(load_card(path).digest))
    evidence = path.read_text("utf-8").removeprefix(GRADE)
    path.write_text(f"{evidence}# about the prompt\n{GRADE}", "utf-8")
    add_evidence(path, measured(load_card(path).digest))
    assert path.read_text("utf-8").startswith(f"# about the prompt\n{GRADE}evidence:\n")
    assert len(load_card(path).evidence) == 2


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("Grade the answer.", "Grade the reply.", "settings have changed"),
        ("samples_per_item: 3", "samples_per_item: 5", "settings have changed"),
        ("model: luna", "model: sol", "measured with luna, not with sol"),
    ],
)
def test_a_changed_prompt_setting_or_model_is_told(
    tmp_path: Path, old: str, new: str, line: str
) -> None:
    path = write(tmp_path, GRADE + SECTION)
    add_evidence(path, measured(load_card(path).digest))
    path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8")
    lines = [*load_card(path).explain_staleness()]
    assert len(lines) == 1
    assert line in lines[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{SCORE}judge: {{endpoint: {{base_url: 'http://x'}}}}\n", "judge.endpoint.base_url"),
        (f"{SCORE}judge: {{judge_api_key_env: KEY}}\n", "judge.judge_api_key_env"),
        (
            "judge: {kind: jury, judges: {a: {endpoint: {api_key: x}}}}\n",
            "judge.judges.a.endpoint.api_key",
        ),
        (
            'judge: {kind: jury, judges: \'{"a": {"judge_base_url": "http://x"}}\'}\n',
            "judge.judges.a.judge_base_url",
        ),
        ("judge: {kind: jury, judges: '@evil.yaml'}\n", "judge.judges.a.endpoint.api_key_env"),
        ("judge: {kind: shop.yaml}\n", "judge.kind: shop.yaml"),
        ("judge: {kind: jury, judges: {a: {judge: shop.yaml}}}\n", "part of itself"),
        ("judge: {kind: jury, judges: {a: {kind: other.yaml}}}\n", "part of itself"),
        (f"{SCORE}judge: {{kind: rubric}}\n", "expected prompt"),
        ("judge: {kind: rule}\nprompts: x\n", "2: prompts: unknown; expected prompt, scale"),
        (f"{SCORE}evidence: [{{by: guess}}]\n", "evidence.0.by: "),
        (f"{SCORE}evidence: 3\n", "evidence: "),
        (f"{SCORE}colour: red\n", "colour: unknown"),
    ],
)
def test_a_wrong_card_is_one_line_with_file_and_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = write(tmp_path, text)
    (tmp_path / "evil.yaml").write_text("a: {endpoint: {api_key_env: KEY}}\n", "utf-8")
    other = "judge: {kind: jury, judges: [{judge: shop.yaml}, {judge: rubric}]}\n"
    (tmp_path / "other.yaml").write_text(other, "utf-8")
    with pytest.raises(ValueError, match=r"shop\.yaml:\d+: ") as error:
        load_card(path)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_a_setting_that_the_kind_does_not_read_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, f"{SCORE}judge: {{strictness: 3}}\n")
    with pytest.raises(ValueError, match="strictness"):
        AnyJudgeSettings(judge=str(path))


def test_a_changed_file_that_a_card_names_is_told(tmp_path: Path) -> None:
    rule, words = tmp_path / "own.py", tmp_path / "criteria.yaml"
    rule.write_text("def score(response):\n    return 1.0\n", "utf-8")
    words.write_text("[Is polite.]", "utf-8")
    parts = (
        "{a: {kind: rule, rule: 'own.py:score'}, b: {kind: checklist, criteria: '@criteria.yaml'}}"
    )
    path = write(tmp_path, f"judge: {{kind: composite, reward: {parts}}}\n")
    assert len(AnyJudgeSettings(judge=str(path)).part_settings) == 2
    add_evidence(path, measured(load_card(path).digest))
    assert [*load_card(path).explain_staleness()] == []
    before = load_card(path).digest
    words.write_text("[Is kind.]", "utf-8")
    assert len([*load_card(path).explain_staleness()]) == 1
    rule.write_text("def score(response):\n    return 0.0\n", "utf-8")
    assert load_card(path).digest != before


def test_files_are_looked_up_beside_the_card(tmp_path: Path) -> None:
    path = write(tmp_path, "judge: {kind: rule, rule: 'own.py:score'}\n")
    assert load_card(path).section["rule"] == f"{tmp_path / 'own.py'}:score"
    assert "own.py:score" in load_card(path).to_yaml()
    assert str(tmp_path) not in load_card(path).to_yaml()


def test_signs_at_the_start_of_a_text_name_no_file(tmp_path: Path) -> None:
    path = write(tmp_path, 'judge: {kind: checklist, criteria: [{text: "@ signs are kept."}]}\n')
    assert load_card(path).section["criteria"] == [{"text": "@ signs are kept."}]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(yaml.safe_load(GRADE)),
        f"{GRADE}...\n",
        "".join(f"  {line}\n" for line in GRADE.splitlines()),
        "scale: yes/no\nverdict: {within: brackets}\nprompt: |\n  Is it?\n\n  {response}",
        GRADE.replace("\n", "\r\n"),
    ],
    ids=["braces", "end", "indented", "no_line_break", "carriage_returns"],
)
def test_evidence_leaves_a_card_of_any_form_the_same(tmp_path: Path, text: str) -> None:
    path = tmp_path / "shop.yaml"
    path.write_bytes(text.encode())
    link = tmp_path / "folder" / "link.yaml"
    link.parent.mkdir()
    link.symlink_to(path)
    path.chmod(0o600)
    before = load_card(path)
    for count in (1, 2):
        add_evidence(link, measured(before.digest))
        card = load_card(path)
        assert card.prompt_file == before.prompt_file
        assert [*card.explain_staleness()] == []
        assert len(card.evidence) == count
    data = path.read_bytes()
    assert data.count(b"\r\n") in (0, data.count(b"\n"))
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert not [*tmp_path.glob(".shop*")]
