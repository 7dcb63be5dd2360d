"""The page of a file of groups: of `process`, of a file alone, and of groups whose judge failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from environments.report.run_page.contents import ReportOptions
from environments.report.run_page.write import write_report
from judges.llm.errors import RunDirectoryError
from tests.command import in_process
from tests.environments.report.run_page.written import Written


def rollout(text: str, label: str | None = "win", status: str = "ok") -> list[dict[str, Any]]:
    judgment = {"status": status, "label": label, "explanation": f"of {text}"}
    answer = {"role": "assistant", "content": text, "reward": 0.0, "judgment": judgment}
    return [{"role": "user", "content": "why?"}, answer]


def page(path: Path, *groups: dict[str, Any], **options: Any) -> Written:
    file = path / "groups.jsonl"
    file.write_text("".join(json.dumps(group) + "\n" for group in groups))
    written = write_report(file, ReportOptions(**options))
    assert written == path / "groups.html"
    return Written.read(written)


def test_groups_of_process_have_their_row_and_the_calls_of_each_rollout(tmp_path: Path) -> None:
    file = tmp_path / "groups.jsonl"
    flags = f"--env.data_path_to_save_groups={file}", "--env.total_steps=3", "--env.group_size=2"
    ended = in_process("process", "--offline", *flags, "--env.write_report=True")
    assert ended.code == 0, ended.said
    assert f"the page to read them is {tmp_path / 'groups.html'}" in " ".join(ended.out.split())
    written, groups = Written.read(tmp_path / "groups.html"), [json.loads(line) for line in file.open()]
    assert written.order == ["1", "2", "3"]
    assert "no benchmark result" in written.head and "3, with 6 rollouts" in written.head
    for shown, group in zip(written.details.values(), groups, strict=True):
        assert [each["score"] for each in shown["completions"]] == group["scores"]
        assert [each["text"] for each in shown["completions"]] == [turns[-1]["content"] for turns in group["messages"]]
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
    group = {"scores": [1.0, 0.0, 0.5], "messages": [rollout("a"), rollout("b"), rollout("c", None, "judge_failed")]}
    written = page(tmp_path, {**group, "overrides": [{}, {}, {"set_advantage_to_zero": True}]})
    shown = written.details["1"]
    assert shown["error"] == "the judge failed for 1 of 3 rollouts" and written.summaries["1"]["failed"]
    assert [bool(each["notes"]) for each in shown["completions"]] == [False, False, True]
    assert "mean reward 0.5000" in written.head and "The judge failed for 1 of 3 rollouts" in written.head
    assert "Distribution of rewards: 0: 1; 1: 1" in written.head


def test_only_a_score_of_zero_is_called_a_tie(tmp_path: Path) -> None:
    """Arena-Hard's label is a tie unless both games were won, or both lost."""
    written = page(tmp_path, {"scores": [0.5, -0.5, 0.0], "messages": [rollout(text, "tie") for text in "abc"]})
    labels = [each["label"] for each in written.details["1"]["completions"]]
    assert labels == ["better than a tie", "worse than a tie", "tie"]


def test_an_equal_completion_is_said_to_be_judged_with_the_first(tmp_path: Path) -> None:
    written = page(tmp_path, {"scores": [1.0, 1.0], "messages": [rollout("same"), rollout("same")]})
    assert [each["notes"] for each in written.details["1"]["completions"]] == [
        [],
        ["equal to rollout 1, and judged with it"],
    ]


def test_groups_without_messages_show_their_scores(tmp_path: Path) -> None:
    written = page(tmp_path, {"scores": [1.0, -0.25], "tokens": [[1], [2]]})
    assert [each["score"] for each in written.details["1"]["completions"]] == [1.0, -0.25]
    assert "--env.include_messages=True" in written.head


def test_worst_groups_come_first_and_no_groups_are_a_page(tmp_path: Path) -> None:
    groups = [{"scores": [score], "messages": [rollout("text")]} for score in (1.0, -1.0, 0.0)]
    assert page(tmp_path, *groups, order="worst").order == ["2", "3", "1"]
    assert page(tmp_path).order == []


@pytest.mark.parametrize("line", ["[]", '{"scores": "high"}', '{"scores": [1.0], "messages": [[{"role": 1}]]}'])
def test_a_line_that_is_no_group_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "groups.jsonl").write_text('{"scores": [1.0]}\n' + line + "\n")
    with pytest.raises(RunDirectoryError, match=r"groups\.jsonl, line 2: not a group of rollouts"):
        write_report(tmp_path / "groups.jsonl")
    assert not (tmp_path / "groups.html").exists()
