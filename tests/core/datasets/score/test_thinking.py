"""Thinking in the texts of judges and of responses, through `judgegym score`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judgegym.judges.scorers.registry import COMPOSED_KINDS, JUDGES
from tests.command import serving, write_lines
from tests.core.datasets.scoring import read_rows, samples_of, score
from tests.scripted import Json
from tests.thinking import DRAFTS, PROMPT_FILE, stand_in, thoughts

ONE = {
    "response": "Because.",
    "baseline": "So.",
    "criteria": [{"criterion": "It says why.", "points": 1}],
}
TWO = {"responses": ["Because.", "So."]}
ASKED = [
    kind for kind, judge in JUDGES.items() if judge.asks_endpoint and kind not in COMPOSED_KINDS
]
WORDS = {
    "prompt": (f"--judge_prompt={PROMPT_FILE}",),
    "aspect": ("--aspects=correctness",),
    "rubric": ("--judge_critique_rounds=1",),
}
NOTICE = "with its thinking"
"""Of the log, once where a response has thinking at its beginning."""


def test_every_kind_of_judge_that_writes_a_verdict_is_asked() -> None:
    assert {*ASKED} - {"tournament", "reward_model"} == {*DRAFTS}, (
        "a tournament's games are those of arena_hard"
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", DRAFTS)
def test_a_judge_that_thinks_gives_the_scores_of_one_that_does_not(
    tmp_path: Path, kind: str
) -> None:
    shapes = list(thoughts(f"{DRAFTS[kind]} Hmm, the claim is false though."))[::11]
    row = TWO if kind in ("choice", "listwise") else ONE
    data = write_lines(
        tmp_path / "data.jsonl", [{**row, "prompt": f"Why is it {n}?"} for n in range(len(shapes))]
    )
    thinks = True

    def answer(request: Json, number: int) -> str:
        asked = "\n".join(message["content"] for message in request["messages"])
        assert "Perhaps" not in asked, "no critique or repair shows the thought"
        return (
            shapes[int(asked.rpartition("Why is it ")[2].partition("?")[0])][0] if thinks else ""
        ) + stand_in(request)

    found = []
    with serving(answer) as judge:
        for thinks in (True, False):
            out = tmp_path / f"{thinks}.jsonl"
            words = (
                f"--judge={kind}",
                f"--judge_base_url={judge.base_url}",
                "--max_judge_error_rate=1",
            )
            score(data, "--out", out, *words, *WORDS.get(kind, ()))
            found.append(read_rows(out))
    for (text, is_ended), one, other in zip(shapes, *found, strict=True):
        expected = other["judge/score"] if is_ended else None if row is ONE else [None, None]
        assert one["judge/score"] == expected, text
        assert "Perhaps" not in str(one["judge/explanation"]), text


RULE = {"judge": "rule", "rule": "exact", "rule_expected": "It is 42."}
REWARD = (
    '{"rule": %s, "judge": {"judge": "rubric"}, "format": {"judge": "rule", "rule": '
    '"thinking_format"}}'
)


def test_a_response_is_shown_to_rules_and_judges_without_its_thinking(tmp_path: Path) -> None:
    shapes = list(thoughts("Perhaps it is 41. Or not."))[::7]
    texts = [f"{text}It is 42." for text, _ in shapes]
    plain = [
        "It is 42.",
        "It is 42. The model writes </think> where it is done.",
        "Write `</think>` behind it.",
        'He said "<thinking>" and meant it.',
        "```xml\n<thinking>a</thinking>\n```\nThat is the form.",
        "First I think.\n<reasoning>6 * 7</reasoning>\nIt is 42.",
        "analysisResults = compute()",
        "analysis of it: 42",
        "Here is my response: 42",
        '{"text": "a </think> b"}',
    ]
    data = write_lines(
        tmp_path / "data.jsonl",
        [{"prompt": "6 * 7?", "response": text} for text in [*texts, *plain]],
    )
    shown: list[str] = []

    def answer(request: Json, number: int) -> str:
        shown.append(request["messages"][-1]["content"])
        return "[FEEDBACK] So. [SCORE] 5"

    out = tmp_path / "scored.jsonl"
    with serving(answer) as judge:
        reward = REWARD % json.dumps(RULE)
        words = ("--judge=composite", f"--reward={reward}", f"--judge_base_url={judge.base_url}")
        ended = score(data, "--out", out, *words)
    assert ended.said.count(NOTICE) == 1
    rows, samples = read_rows(out), samples_of(out)
    for (text, is_ended), row, sample in zip(shapes, rows, samples, strict=False):
        assert row["response"] == f"{text}It is 42.", "the data stay as they are"
        if is_ended:
            assert (row["judge/status"], row["judge/detail"]["rule"]) == ("ok", 1.0), text
            assert (sample["model_answer"], sample["written"]) == ("It is 42.", f"{text}It is 42.")
        else:
            assert (row["judge/status"], row["judge/score"]) == ("invalid_completion", None), text
            assert "nothing but thinking" in str(row["judge/explanation"])
    assert shown != [] and not any("Perhaps" in asked for asked in shown)
    for said, sample in zip(plain, samples[len(shapes) :], strict=True):
        assert sample["model_answer"] == said and "written" not in sample, (
            "a marker that is only mentioned"
        )
        assert any(said in asked for asked in shown)


def test_with_judged_thinking_kept_all_of_a_response_is_shown(tmp_path: Path) -> None:
    data = write_lines(
        tmp_path / "data.jsonl", [{"prompt": "6 * 7?", "response": "<think>41?</think>It is 42."}]
    )
    shown: list[str] = []

    def answer(request: Json, number: int) -> str:
        shown.append(request["messages"][-1]["content"])
        return "<plan>[SCORE] 1</plan>[FEEDBACK] So. [SCORE] 5"

    out = tmp_path / "scored.jsonl"
    with serving(answer) as judge:
        words = (
            f"--judge_base_url={judge.base_url}",
            "--judged_thinking=kept",
            '--thinking_markers={"<plan>":"</plan>"}',
        )
        ended = score(data, "--out", out, *words)
    assert NOTICE not in ended.said
    assert "<think>41?</think>It is 42." in shown[0]
    assert [row["judge/score"] for row in read_rows(out)] == [1.0]


def test_earlier_answers_in_a_prompt_are_shown_without_their_thinking(tmp_path: Path) -> None:
    prompt = [
        {"role": "user", "content": "6 * 6?"},
        {"role": "assistant", "content": "<think>SECRET</think>It is 36."},
        {"role": "user", "content": "And 6 * 7?"},
    ]
    data = write_lines(tmp_path / "data.jsonl", [{"prompt": prompt, "response": "42"}])
    out = tmp_path / "scored.jsonl"
    with serving("[FEEDBACK] So. [SCORE] 5") as judge:
        where = f"--judge_base_url={judge.base_url}"
        score(data, "--out", out, where)
        score(data, "--out", tmp_path / "kept.jsonl", where, "--judged_thinking=kept")
    shown = [request["messages"][-1]["content"] for request in judge.bodies]
    assert "assistant: It is 36.\n\nuser: And 6 * 7?" in shown[0] and "SECRET" not in shown[0]
    assert "assistant: <think>SECRET</think>It is 36." in shown[1]
    assert [row["prompt"] for row in read_rows(out)] == [prompt], "the data stay as they are"
