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
EXPECTED_SCALE = (
    "13: scale: expected [LOWEST, HIGHEST] of whole numbers, {LABEL: SCORE FROM 0 TO 1, …} or "
    "yes/no"
)
EXPECTED_RULE = "expected one of {after: WORD}, {within: brackets} and {field: NAME}"
WITHIN = (
    "stands within a line, where a text could pass for the prompt's own words; expected it alone "
    "in a line"
)


def refused(command: Scoring, path: Path, *words: str) -> str:
    """The only line that the command says, without asking anybody."""
    ended: Ended = command(f"--judge={path}", *words, rows=ROWS)
    assert (ended.code, ended.out, command.judge.requests) == (2, "", [])
    (line,) = ended.err.splitlines()
    assert not command.out.exists()
    return line


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "{response}",
            "nothing",
            "2: there is no {response}: a prompt needs the text that is judged",
        ),
        (
            "{prompt}",
            "{question}",
            "5: {question}: unknown placeholder; expected {prompt}, {response}, {reference}, ",
        ),
        ("{prompt}", "The user asks {prompt} today.", f"5: {{prompt}} {WITHIN}"),
        ("{response}", "<answer>{response}</answer>", f"11: {{response}} {WITHIN}"),
        ("{response}", '"{response}"', f"11: {{response}} {WITHIN}"),
        ("{context}", "{prompt}", "8: {prompt} is in line 5 already; expected it once"),
        ("{context}", "{{ context }}", "8: { context }: expected {context}, without anything else"),
        ("{context}", "{context!r}", "8: {context!r}: expected {context}, without anything else"),
        ("<|Policy|>", "<|Question|>", "8: two markers have the title 'Question'"),
        (
            "prompt: |-",
            "prompt: >-",
            f"1: {{prompt}} {WITHIN}, or behind a label: Label: {{prompt}}; the lines of this",
        ),
        ("prompt: |-", "prompt: 5\nsystem: |-", "1: prompt: expected a text with placeholders"),
        (
            SCALE,
            "scale: {good: 1.0}",
            "13: scale: expected labels with at least two different scores",
        ),
        (
            SCALE,
            "scale: {good: 1.0, fair: 1.0}",
            "13: scale: expected labels with at least two different scores",
        ),
        (SCALE, "scale: [5, 5]", "13: scale: expected a lowest and a higher score, found 5 and 5"),
        (SCALE, "scale: [5, 1]", "13: scale: expected a lowest and a higher score, found 5 and 1"),
        (SCALE, "scale: [1, 5000]", "13: scale: expected at most 1001 levels, found 5000"),
        (SCALE, "scale: [1, .inf]", EXPECTED_SCALE),
        (SCALE, "scale: [no, yes]", EXPECTED_SCALE),
        (SCALE, "scale: [1, 2, 3]", EXPECTED_SCALE),
        (SCALE, "scale: {bad: .nan, good: 1}", EXPECTED_SCALE),
        (SCALE, "scale: {bad: -1, good: 1}", EXPECTED_SCALE),
        (SCALE, "scale: {bad: no, good: yes}", EXPECTED_SCALE),
        (SCALE, "scale: {good: 0, good: 1}", "13: expected YAML: the name 'good' occurs twice"),
        (
            SCALE,
            "scale: {good: 0, Good: 1}",
            "13: scale: the labels 'good' and 'Good' differ only in upper and lower case or",
        ),
        (
            SCALE,
            "scale: {A: 0, \u0410: 1}",
            "13: scale: the labels 'A' and '\u0410' differ only in upper and lower case or",
        ),
        (
            SCALE,
            f"scale: {{bad: 0, {'x' * 61}: 1}}",
            f"13: scale: '{'x' * 60}' is no label; expected a word or several",
        ),
        (
            SCALE,
            'scale: {"b\\nd": 0, good: 1}',
            "13: scale: 'b\\nd' is no label; expected a word or several",
        ),
        (
            SCALE,
            'scale: {"b]]d": 0, good: 1}',
            "14: verdict: the label 'b]]d' cannot be read in a reply that ends '[[b]]d",
        ),
        (VERDICT, '{after: "Grade:"}\nsystem: 1', "15: system: expected a text"),
        (
            VERDICT,
            "{within: brackets, after: 'SCORE:'}",
            "14: verdict: expected exactly one of after, within and field",
        ),
        (
            VERDICT,
            "{inside: brackets}",
            "14: verdict.inside: unknown; expected after, within, field",
        ),
        (VERDICT, "{within: braces}", f"14: verdict.within: {EXPECTED_RULE}"),
        (VERDICT, "brackets", f"14: verdict: {EXPECTED_RULE}"),
        (
            VERDICT,
            "{field: explanation}",
            "14: verdict: field: explanation holds the judge's words where it replies",
        ),
        (f"verdict: {VERDICT}\n", "", f"1: verdict: {EXPECTED_RULE}"),
        (
            LAST,
            "optional: [reference]",
            "15: optional: the prompt has no section {reference} that could be left out",
        ),
        (
            LAST,
            "optional: [contxt]",
            "15: optional: expected a list of placeholders, such as [context]",
        ),
        (
            LAST,
            "system: About {context}.",
            "15: system: {context} in a system message is not delimited; move it into",
        ),
        (LAST, "votes: 3", "15: votes: unknown; expected prompt, scale, verdict, system, optional"),
        (LAST, "a: [", "16: expected YAML: did not find expected node content"),
        (LAST, "\ta: b", "15: expected YAML: found character that cannot start any token"),
        (LAST, "a: \x01", "15: expected YAML: control characters are not allowed"),
        (LAST, "a: &a [*a]", "15: expected YAML: *a is a part of itself"),
        (LAST, "prompt: x", "15: expected YAML: the name 'prompt' occurs twice"),
        (LAST, "---\na: b", "15: expected YAML: but found another document"),
        (
            LAST,
            "a: !!python/object:os.system b",
            "15: expected YAML: could not determine a constructor for the tag",
        ),
        (GRADE, "", "1: expected YAML with prompt, scale and verdict"),
        (GRADE, "- prompt", "1: expected YAML with prompt, scale and verdict"),
        (GRADE, "Rate the answer.", "1: expected YAML with prompt, scale and verdict"),
    ],
)
def test_a_wrong_file_is_told_in_one_line_with_its_place(
    command: Scoring, tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(GRADE.replace(old, new), encoding="utf-8")
    assert refused(command, path).startswith(f"--judge_prompt (command line): {path}:{said}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none.yaml", ": the prompt file cannot be read: No such file or directory"),
        ("folder.yaml", ": the prompt file cannot be read: Is a directory"),
        ("large.yaml", ": a prompt file has at most 1,000,000 bytes"),
        ("utf16.yml", ":1: expected YAML: not UTF-8: invalid start byte at byte 0"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_one_line(
    command: Scoring, tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "large.yaml").write_text(GRADE.replace("Grade the answer.", "x" * 10_000_000))
    (tmp_path / "utf16.yml").write_bytes(GRADE.encode("utf-16"))
    assert (
        refused(command, tmp_path / name)
        == f"--judge_prompt (command line): {tmp_path / name}{said}"
    )


def test_the_judge_prompt_needs_a_file(command: Scoring) -> None:
    said = "judge_prompt: the judge prompt needs a prompt file; expected --judge=FILE.yaml"
    assert refused(command, Path("prompt")) == said


def test_a_wrong_file_of_a_member_is_told_with_the_member(command: Scoring, tmp_path: Path) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(LEVEL.replace("{response}", "nothing"))
    said = refused(
        command, Path("jury"), "--judges=" + json.dumps({"one": {"judge": str(path)}, "two": {}})
    )
    assert "judges.one." in said and f"{path}:3: there is no {{response}}" in said


def test_a_row_without_a_text_that_the_prompt_shows_is_told_with_its_columns(
    command: Scoring, tmp_path: Path
) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text(LEVEL)
    ended = command(f"--judge={path}", rows=ROWS)
    assert (ended.code, command.judge.requests) == (2, [])
    assert (
        "row 1: reference: the prompt shows it, and there is none; if rows may lack it, name it un"
        in ended.err
    )
    assert (
        "reference, reference_answer, or in the column that --reference_column names" in ended.err
    )
