"""`judgegym score` by a prompt file: what is wrong with the file is one line with its place, before the first call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import Ended
from tests.core.datasets.scoring import Scoring
from tests.prompt_files import GRADE, LEVEL

ROWS = [{"prompt": "Why?", "response": "So."}]
SCALE, VERDICT, LAST = (
    "scale: {bad: 0.0, fair: 0.4, good: 1.0}",
    "{within: brackets}",
    "optional: [context]",
)
SCALES = ("[LOWEST, HIGHEST]", "{LABEL: SCORE", "yes/no")
RULES = ("{after: WORD}", "{within: brackets}", "{field: NAME}")
WITHIN = "within a line"


def refused(command: Scoring, path: Path, *words: str) -> str:
    """The only line that the command says, without asking anybody."""
    ended: Ended = command(f"--judge={path}", *words, rows=ROWS)
    assert (ended.code, ended.out, command.judge.requests) == (2, "", [])
    (line,) = ended.err.splitlines()
    assert not command.out.exists()
    return line


@pytest.mark.parametrize(
    ("old", "new", "begins", "facts"),
    [
        ("{response}", "nothing", "2: ", ("no {response}",)),
        (
            "{prompt}",
            "{question}",
            "5: {question}: ",
            ("unknown placeholder", "{prompt}, {response}, {reference}, "),
        ),
        ("{prompt}", "The user asks {prompt} today.", "5: {prompt} ", (WITHIN, "alone")),
        ("{response}", "<answer>{response}</answer>", "11: {response} ", (WITHIN, "alone")),
        ("{response}", '"{response}"', "11: {response} ", (WITHIN, "alone")),
        ("{context}", "{prompt}", "8: {prompt} ", ("in line 5 already",)),
        ("{context}", "{{ context }}", "8: { context }: ", ("expected {context}, ",)),
        ("{context}", "{context!r}", "8: {context!r}: ", ("expected {context}, ",)),
        ("<|Policy|>", "<|Question|>", "8: ", ("two markers", "'Question'")),
        (
            "prompt: |-",
            "prompt: >-",
            "1: {prompt} ",
            (WITHIN, "Label: {prompt}; ", "write prompt: | "),
        ),
        ("prompt: |-", "prompt: 5\nsystem: |-", "1: prompt: ", ("placeholders", "{response}")),
        (SCALE, "scale: {good: 1.0}", "13: scale: ", ("two different scores", "{'good': 1.0}")),
        (
            SCALE,
            "scale: {good: 1.0, fair: 1.0}",
            "13: scale: ",
            ("two different scores", "{'good': 1.0, 'fair': 1.0}"),
        ),
        (SCALE, "scale: [5, 5]", "13: scale: ", ("a higher score", "found 5 and 5")),
        (SCALE, "scale: [5, 1]", "13: scale: ", ("a higher score", "found 5 and 1")),
        (SCALE, "scale: [1, 5000]", "13: scale: ", ("1001 levels, found 5000",)),
        (SCALE, "scale: [1, .inf]", "13: scale: ", SCALES),
        (SCALE, "scale: [no, yes]", "13: scale: ", SCALES),
        (SCALE, "scale: [1, 2, 3]", "13: scale: ", SCALES),
        (SCALE, "scale: {bad: .nan, good: 1}", "13: scale: ", SCALES),
        (SCALE, "scale: {bad: -1, good: 1}", "13: scale: ", SCALES),
        (SCALE, "scale: {bad: no, good: yes}", "13: scale: ", SCALES),
        (SCALE, "scale: {good: 0, good: 1}", "13: expected YAML: ", ("'good' occurs twice",)),
        (
            SCALE,
            "scale: {good: 0, Good: 1}",
            "13: scale: ",
            ("'good' and 'Good' differ", "looks"),
        ),
        (
            SCALE,
            "scale: {A: 0, \u0410: 1}",
            "13: scale: ",
            ("'A' and '\u0410' differ", "looks"),
        ),
        (
            SCALE,
            f"scale: {{bad: 0, {'x' * 61}: 1}}",
            f"13: scale: '{'x' * 60}' ",
            ("no label", "60 signs"),
        ),
        (SCALE, 'scale: {"b\\nd": 0, good: 1}', "13: scale: 'b\\nd' ", ("no label",)),
        (
            SCALE,
            'scale: {"b]]d": 0, good: 1}',
            "14: verdict: ",
            ("label 'b]]d' ", "ends '[[b]]d"),
        ),
        (VERDICT, '{after: "Grade:"}\nsystem: 1', "15: system: ", ("expected a text",)),
        (
            VERDICT,
            "{within: brackets, after: 'SCORE:'}",
            "14: verdict: ",
            ("exactly one of", "found after and within"),
        ),
        (
            VERDICT,
            "{inside: brackets}",
            "14: verdict.inside: ",
            ("unknown; expected after, within, field",),
        ),
        (VERDICT, "{within: braces}", "14: verdict.within: ", RULES),
        (VERDICT, "brackets", "14: verdict: ", RULES),
        (VERDICT, "{field: explanation}", "14: verdict: field: explanation ", ("an object",)),
        (f"verdict: {VERDICT}\n", "", "1: verdict: ", RULES),
        (LAST, "optional: [reference]", "15: optional: ", ("no section {reference}",)),
        (LAST, "optional: [contxt]", "15: optional: ", ("list of placeholders", "[context]")),
        (LAST, "system: About {context}.", "15: system: {context} ", ("not delimited",)),
        (
            LAST,
            "votes: 3",
            "15: votes: ",
            ("unknown; expected prompt, scale, verdict, system, optional",),
        ),
        (LAST, "a: [", "16: expected YAML: ", ("did not find expected node content",)),
        (LAST, "\ta: b", "15: expected YAML: ", ("character that cannot start any token",)),
        (LAST, "a: \x01", "15: expected YAML: ", ("control characters are not allowed",)),
        (LAST, "a: &a [*a]", "15: expected YAML: *a ", ("part of itself",)),
        (LAST, "prompt: x", "15: expected YAML: ", ("'prompt' occurs twice",)),
        (LAST, "---\na: b", "15: expected YAML: ", ("but found another document",)),
        (
            LAST,
            "a: !!python/object:os.system b",
            "15: expected YAML: ",
            ("could not determine a constructor for the tag",),
        ),
        (GRADE, "", "1: expected YAML ", ("scale and verdict",)),
        (GRADE, "- prompt", "1: expected YAML ", ("scale and verdict",)),
        (GRADE, "Rate the answer.", "1: expected YAML ", ("scale and verdict",)),
    ],
)
def test_a_wrong_file_is_told_in_one_line_with_its_place(
    command: Scoring, tmp_path: Path, old: str, new: str, begins: str, facts: tuple[str, ...]
) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(GRADE.replace(old, new), encoding="utf-8")
    said = refused(command, path)
    assert said.startswith(f"--judge_prompt (command line): {path}:{begins}")
    assert all(fact in said for fact in facts), said


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("none.yaml", "cannot be read: No such file or directory"),
        ("folder.yaml", "cannot be read: Is a directory"),
        ("large.yaml", "at most 1,000,000 bytes"),
        ("utf16.yml", ":1: expected YAML: not UTF-8: invalid start byte at byte 0"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_one_line(
    command: Scoring, tmp_path: Path, name: str, fact: str
) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "large.yaml").write_text(GRADE.replace("Grade the answer.", "x" * 10_000_000))
    (tmp_path / "utf16.yml").write_bytes(GRADE.encode("utf-16"))
    said = refused(command, tmp_path / name)
    assert said.startswith(f"--judge_prompt (command line): {tmp_path / name}:")
    assert said.endswith(fact)


def test_the_judge_prompt_needs_a_file(command: Scoring) -> None:
    said = refused(command, Path("prompt"))
    assert said.startswith("judge_prompt: ") and "--judge=FILE.yaml" in said


def test_a_wrong_file_of_a_member_is_told_with_the_member(command: Scoring, tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(LEVEL.replace("{response}", "nothing"))
    said = refused(
        command, Path("jury"), "--judges=" + json.dumps({"one": {"judge": str(path)}, "two": {}})
    )
    assert "judges.one." in said and f"{path}:3: " in said and "no {response}" in said


def test_a_row_without_a_text_that_the_prompt_shows_is_told_with_its_columns(
    command: Scoring, tmp_path: Path
) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(LEVEL)
    ended = command(f"--judge={path}", rows=ROWS)
    assert (ended.code, command.judge.requests) == (2, [])
    facts = (
        "row 1: reference: ",
        "under optional",
        "in reference, reference_answer, ",
        "--reference_column",
    )
    assert all(fact in ended.err for fact in facts), ended.err
