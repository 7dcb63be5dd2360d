"""The page of a file of groups: of `process`, of a file alone, and of groups whose judge failed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.errors import RunDirectoryError
from judgegym.reports.run_page.page import write_report
from tests.command import in_process
from tests.core.reports.run_page.written import Written


def rollout(text: str, label: str | None = "win", status: str = "ok") -> list[dict[str, Any]]:
    judgment = {"status": status, "label": label, "explanation": f"of {text}"}
    answer = {"role": "assistant", "content": text, "reward": 0.0, "judgment": judgment}
    return [{"role": "user", "content": "why?"}, answer]


def page(path: Path, *groups: dict[str, Any], **options: Any) -> Written:
    file = path / "groups.jsonl"
    file.write_text("".join(json.dumps(group) + "\n" for group in groups))
    written = write_report(file, **options)
    assert written == path / "groups.html"
    return Written.read(written)


@pytest.mark.slow
def test_groups_of_process_have_their_row_and_the_calls_of_each_rollout(tmp_path: Path) -> None:
    file = tmp_path / "groups.jsonl"
    flags = f"--env.data_path_to_save_groups={file}", "--env.total_steps=3", "--env.group_size=2"
    ended = in_process("process", "--offline", *flags, "--env.write_report=True")
    assert ended.code == 0, ended.said
    assert f" is {tmp_path / 'groups.html'}" in " ".join(ended.out.split())
    written, groups = (
        Written.read(tmp_path / "groups.html"),
        [json.loads(line) for line in file.open()],
    )
    assert written.order == ["1", "2", "3"]
    assert "no benchmark result" in written.head and "3, with 6 rollouts" in written.head
    for shown, group in zip(written.details.values(), groups, strict=True):
        assert [each["score"] for each in shown["completions"]] == group["scores"]
        assert [each["text"] for each in shown["completions"]] == [
            turns[-1]["content"] for turns in group["messages"]
        ]
        assert shown["conversation"][-1]["text"] == group["messages"][0][-2]["content"]
        assert shown["texts"] == [{"title": "baseline", "text": group["row"]["texts"]["baseline"]}]
        assert {call["name"] for call in shown["calls"]} == {"policy, 1 of 2", "policy, 2 of 2"}
        for each in shown["completions"]:
            assert {call["name"] for call in each["calls"]} == {"game_1", "game_2"}
            assert all(each["text"] in call["messages"][1]["text"] for call in each["calls"])
        summary = written.summaries[shown["id"]]
        assert summary["category"] == group["row"]["category"]
        assert summary["score"] == sum(group["scores"]) / 2 and summary["seconds"] > 0


def test_a_rollout_without_a_judgment_is_said_and_in_no_number(tmp_path: Path) -> None:
    group = {
        "scores": [1.0, 0.0, 0.5],
        "messages": [rollout("a"), rollout("b"), rollout("c", None, "judge_failed")],
    }
    written = page(tmp_path, {**group, "overrides": [{}, {}, {"set_advantage_to_zero": True}]})
    shown = written.details["1"]
    assert "failed for 1 of 3 rollouts" in shown["error"] and written.summaries["1"]["failed"]
    assert [bool(each["notes"]) for each in shown["completions"]] == [False, False, True]
    assert "mean reward 0.5000" in written.head and "failed for 1 of 3 rollouts" in written.head
    assert "Distribution of rewards: 0: 1; 1: 1" in written.head


@pytest.mark.slow
def test_only_a_score_of_zero_is_called_a_tie_and_equal_completions_are_judged_once(
    tmp_path: Path,
) -> None:
    """Arena-Hard's label is a tie unless both games were won, or both lost."""
    ties = {"scores": [0.5, -0.5, 0.0], "messages": [rollout(text, "tie") for text in "abc"]}
    same = {"scores": [1.0, 1.0], "messages": [rollout("same"), rollout("same")]}
    written = page(tmp_path, ties, same, {"scores": [1.0, -0.25], "tokens": [[1], [2]]})
    of_ties, of_same, of_scores = (
        written.details[number]["completions"] for number in ("1", "2", "3")
    )
    better, worse, tie = (each["label"] for each in of_ties)
    assert better.startswith("better than ") and worse.startswith("worse than ") and tie == "tie"
    (no_notes, (note,)) = (each["notes"] for each in of_same)
    assert no_notes == [] and "equal to rollout 1" in note
    assert [each["score"] for each in of_scores] == [1.0, -0.25]
    assert "--env.include_messages=True" in written.head, "one group has no messages"
    assert written.details["1"]["comparison"] == ""
    assert "Points by place" not in written.head and "orders" not in written.head


def test_worst_groups_come_first_and_no_groups_are_a_page(tmp_path: Path) -> None:
    groups = [{"scores": [score], "messages": [rollout("text")]} for score in (1.0, -1.0, 0.0)]
    assert page(tmp_path, *groups, order="worst").order == ["2", "3", "1"]
    assert page(tmp_path).order == []


@pytest.mark.parametrize(
    "line", ["{}", '{"scores": "high"}', '{"scores": [1.0], "messages": [[{"role": 1}]]}']
)
def test_a_line_that_is_no_group_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "groups.jsonl").write_text('{"scores": [1.0]}\n' + line + "\n")
    with pytest.raises(
        RunDirectoryError,
        match=r"groups\.jsonl, line 2: .*scored file .*group of rollouts",
    ):
        write_report(tmp_path / "groups.jsonl")
    assert not (tmp_path / "groups.html").exists()


def compared(
    text: str, *looks: tuple[int, int, float], own: float | None, label: str
) -> list[dict[str, Any]]:
    asked, answer = rollout(text, label)
    seen = [{"place": place, "of": of, "points": points} for place, of, points in looks]
    return [asked, {**answer, "judgment": {**answer["judgment"], "own": own, "looks": seen}}]


def row_of(uid: str, judge: str, agreed: int, pairs: int, **more: Any) -> dict[str, Any]:
    together = {
        "judge": judge,
        "anchored": True,
        "orders_agreed": agreed,
        "orders_pairs": pairs,
        "is_again": False,
    }
    row = {
        "uid": uid,
        "group": 0,
        "category": None,
        "question": "why?",
        "texts": {"baseline": "because"},
    }
    return {**row, "together": {**together, "calls": 2, **more}}


@pytest.mark.slow
def test_rollouts_that_were_compared_show_what_each_call_saw_of_them(tmp_path: Path) -> None:
    messages = [
        compared("a", (1, 3, 0.9), (3, 3, 0.8), own=0.85, label="0.85"),
        compared("b", (2, 3, 0.3), (2, 3, 0.1), own=0.2, label="0.2"),
        compared("b", (2, 3, 0.3), (2, 3, 0.1), own=0.2, label="0.2"),
    ]
    group = {
        "scores": [0.7, 0.3, 0.3],
        "messages": messages,
        "row": row_of("u", "listwise", 2, 3, is_again=True),
    }
    written = page(tmp_path, group)
    shown = written.details["1"]
    assert re.search(
        r"listwise judge, in 2 calls; .*second time, .*; the baseline \(the anchor\) .*"
        r"middle .*; .*2 of 3 pairs\.$",
        shown["comparison"],
    )
    assert shown["completions"][0]["seen"] == "place 1 of 3: 0.9; place 3 of 3: 0.8"
    assert [each["label"] for each in shown["completions"]] == [
        "scored 0.85",
        "scored 0.2",
        "scored 0.2",
    ]
    assert "agree on 66.7 % of 3 pairs" in written.head
    assert "place 1: 0.900 of 1; place 2: 0.200 of 2; place 3: 0.800 of 1" in written.head, (
        "once each"
    )


@pytest.mark.slow
def test_games_of_a_tournament_are_summed_up_and_their_calls_belong_to_the_group(
    tmp_path: Path,
) -> None:
    file = tmp_path / "groups.jsonl"
    flags = f"--env.data_path_to_save_groups={file}", "--env.total_steps=3", "--env.group_size=3"
    together = "--env.group_judge=tournament", "--env.game_orders=both", "--env.write_report=True"
    ended = in_process("process", "--offline", *flags, *together)
    assert ended.code == 0, ended.said
    written = Written.read(tmp_path / "groups.html")
    for shown in written.details.values():
        assert "by a tournament, in 12 calls" in shown["comparison"]
        assert re.search(
            r"game_1_2 .*rollout 1 first, game_1_0 before the baseline \(the anchor\)\.$",
            shown["comparison"],
        )
        assert all("6 games, 3 shown first: " in each["seen"] for each in shown["completions"])
        assert {call["name"] for call in shown["calls"]} >= {
            "policy, 1 of 3",
            "game_0_1",
            "game_1_0",
            "game_2_3",
        }
        assert len(shown["calls"]) == 3 + 12
    assert re.search(r"shown first: \S+ of 27; shown second: \S+ of 27\.", written.head)
    assert "judged together tournament" in written.head
