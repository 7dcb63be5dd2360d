"""`process` of an environment with follow-ups: its file, its page, its monitors, its plan; and Atropos' own loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judgegym.reports.results.groups import read_groups
from judgegym.reports.run_page.groups import read_group_page
from tests.command import Ended, in_process, serving
from tests.talks import TalkEnv, Talker, says

FILE = "groups.jsonl"
FLAGS = (
    "--env.total_steps=2",
    "--env.include_messages=True",
    "--env.token_source=chat",
    "--env.retry_delay=0",
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def process(talker: Talker, *flags: str) -> tuple[Ended, int]:
    """Two groups of four; also how many requests the policy had."""
    with serving(talker) as policy:
        url = f"--openai.base_url={policy.base_url}"
        judge = f"--env.judge_base_url={policy.base_url}"  # nobody asks it
        ended = in_process(
            "process",
            url,
            judge,
            f"--env.data_path_to_save_groups={FILE}",
            *FLAGS,
            *flags,
            env_type=TalkEnv,
        )
    return ended, len(policy.requests)


def metrics() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("groups.run/train_metrics.json").read_bytes())
    return found


def test_groups_of_one_sequence_a_rollout() -> None:
    ended, asked = process(Talker(says(1, 2)))
    assert ended.code == 0, ended.err
    assert asked == 2 * (1 + 3 + 2)
    groups = list(read_groups(Path(FILE)))
    for group in groups:
        assert group.row is not None
        assert [turn.content for turn in group.prompt] == [group.row.uid]
        first, second, *_ = [rollout.content for rollout in group.rollouts if rollout is not None]
        assert first == "a1 is worth 0, goodbye"
        assert (
            second
            == "assistant: b1 is worth 1\n\nuser: Go on after 1.\n\nassistant: b2 is worth 1, "
            "goodbye"
        )
        assert group.substituted == group.failed == [False] * 4
    values = metrics()
    assert (
        values["train/turns_mean"],
        values["train/one_sequence_rate"],
        values["train/broken_off_rate"],
    ) == (
        2.25,
        1,
        0,
    )
    kept = Path("groups.run/live.jsonl").read_text()
    assert "user: Go on after 1." in kept


@pytest.mark.slow  # `tests/core/serve/test_turns.py` has groups of each turn in the gate
def test_a_group_of_each_turn_is_a_line_and_an_item_of_the_page() -> None:
    ended, _ = process(Talker(says(1, 2, thinks=True), forgets=True))
    assert ended.code == 0, ended.err
    assert "2 groups" in ended.out
    groups = list(read_groups(Path(FILE)))
    places = [
        (group.row.uid, group.row.turn, group.row.ended)
        for group in groups
        if group.row is not None
    ]
    uids = [places[0][0], places[3][0]]
    assert places == [(uid, turn, list(range(turn - 1))) for uid in uids for turn in (1, 2, 3)]
    assert [group.failed for group in groups] == [[False] * 4] * 6
    assert groups[2].substituted == [True, True, False, False]
    head, items = read_group_page(Path(FILE))
    assert ("groups", "6, with 18 rollouts") in head["first_facts"], (
        "who stands in is not counted again"
    )
    *_, (summary, opened_) = items()
    assert str(summary["start"]).startswith("turn 3: ")
    assert summary["failed"] is False
    notes = [str(each["notes"]) for each in opened_["completions"]]
    assert ["had ended" in of_one for of_one in notes] == [True, True, False, False]
    assert metrics()["train/one_sequence_rate"] == 0
