"""A run of `process` that was stopped is resumed: its file is that of a run that nobody disturbed."""

from __future__ import annotations

import json
import re
import shlex
import signal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.reports.results.calls import CallsOfRows
from tests.command import Ended
from tests.conformance.lab import HANG, Lab, opened
from tests.conformance.subjects import Subject
from tests.scripted import Reply

GROUPS, ROWS_AT_ONCE = 4, 3
FLAGS = "--env.group_size=2", f"--env.total_steps={GROUPS}", f"--env.max_num_workers={ROWS_AT_ONCE}"


@pytest.fixture
def subject(trained: Subject) -> Subject:
    """Each environment, also where groups are judged together."""
    return trained


def argv(lab: Lab, *flags: str) -> list[str]:
    return lab.argv_of_process(*FLAGS, *flags)


class Whole:
    """A run of `process` that nobody disturbed."""

    def __init__(self, lab: Lab) -> None:
        lab.command(*argv(lab)).successful()
        self.groups = lab.groups_path().read_bytes()
        self.policy, self.judge = lab.policy.answered, lab.judge.answered
        self.metrics = metrics_of(lab.groups_path())


@pytest.fixture(scope="session")
def _whole(tmp_path_factory: pytest.TempPathFactory, stand_in_url: str) -> Any:
    @cache
    def run(subject: Subject) -> Whole:
        with opened(subject, tmp_path_factory.mktemp("whole"), stand_in_url) as lab:
            return Whole(lab)

    return run


@pytest.fixture
def whole(subject: Subject, _whole: Any) -> Whole:
    """The subject's run with endpoints that work."""
    found: Whole = _whole(subject)
    return found


def metrics_of(path: Path) -> dict[str, float | None]:
    """The metrics of a run, but for timings; groups are added up in the order in which they are ready."""
    ignored = ("latency", "per_second", "seconds")
    found = json.loads((path.with_suffix(".run") / "train_metrics.json").read_bytes())
    assert found["train/groups_judged"] > 0
    return {
        name: value for name, value in found.items() if not any(word in name for word in ignored)
    }


def noted_as_sent(path: Path) -> int:
    """The requests that the ledger knows of."""
    lines = (path.with_suffix(".run") / "calls.jsonl").read_bytes().splitlines()
    return sum(line.startswith(b'{"sent"') for line in lines)


def interrupted(lab: Lab, number: signal.Signals) -> Ended:
    """Process until one group is written and the others wait for an endpoint that hangs; then a signal."""
    side = lab.judge if lab.subject.has_judge else lab.policy
    answering: list[str] = []

    def first_row_alone(uid: str) -> Reply | None:
        answering.append(uid)
        return None if uid == answering[0] else HANG

    side.disturb(first_row_alone)
    with lab.started(*argv(lab)) as started:
        path = lab.groups_path()
        started.until(
            lambda: path.exists() and path.read_bytes().count(b"\n") == 1, "the first group on disk"
        )
        started.until(lambda: len(side.asked) == ROWS_AT_ONCE + 1, "further rows under way")
        started.until(lambda: noted_as_sent(path) == lab.requests, "all that has left has arrived")
        answered = sum((lab.policy.answered + lab.judge.answered).values())
        started.until(
            lambda: len(list(read_calls(path.with_suffix(".run")))) == answered,
            "all answers in the ledger",
        )
        started.send(number)
        return lab.checked(started.ended())


@pytest.mark.slow("tournament", "rubric_checklist-policy", "prompts-conversations")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda each: each.name)
def test_interrupted_process_resumes_to_the_file_of_an_undisturbed_one(
    lab: Lab, whole: Whole, number: signal.Signals
) -> None:
    ended = interrupted(lab, number)
    path, policy, judge = lab.groups_path(), lab.policy.answered, lab.judge.answered
    sent = noted_as_sent(path)
    in_flight = sent - sum((policy + judge).values())
    assert lab.requests <= sent, "what has left was noted before"
    (kept,) = path.read_bytes().splitlines(keepends=True)
    if number == signal.SIGKILL:
        command = argv(lab, "--resume")
        with path.open("ab") as torn:
            torn.write(b'{"tokens": [[1, 2')
    else:
        assert f"finished are in {path}" in ended.err.replace("\n", " ").replace("  ", " ")
        _, script, *command = shlex.split(ended.err.rstrip().splitlines()[-1])
        assert (script, command[-1]) == (str(lab.subject.script), "--resume")

    lab.restore()
    again = lab.command(*command).successful()
    assert path.read_bytes() == whole.groups
    assert kept in whole.groups
    assert policy + lab.policy.answered == whole.policy, "no answer was asked for twice"
    assert judge + lab.judge.answered == whole.judge
    assert metrics_of(path) == pytest.approx(whole.metrics, abs=1e-6)
    assert re.search(rf"in flight\D*\b{in_flight}\b", again.err)
    assert sorted(each.name for each in path.with_suffix(".run").iterdir()) == [
        "calls.jsonl.gz",
        "config.yaml",
        "live.jsonl",
        "monitor.jsonl",
        "run.log",
        "train_metrics.json",
    ]


def test_finished_process_resumes_without_a_request_and_may_be_extended(
    lab: Lab, whole: Whole
) -> None:
    assert lab.command(*argv(lab, "--env.total_steps=2")).code == 0
    lab.restore()
    lab.command(*argv(lab, "--env.total_steps=2", "--resume")).successful()
    assert lab.requests == 0
    lab.command(*argv(lab, "--resume")).successful()
    assert lab.groups_path().read_bytes() == whole.groups
    of_a_group = 1 + 2 * (lab.subject.turns - 1)  # both rollouts begin with one request
    assert sum(lab.policy.answered.values()) == sum(whole.policy.values()) - 2 * of_a_group


def test_other_settings_do_not_resume_a_process(lab: Lab) -> None:
    assert lab.command(*argv(lab, "--env.total_steps=1")).code == 0
    before = lab.groups_path().read_bytes()
    lab.policy.restore()
    others = {
        "--env.group_size=3": "env.group_size",
        "--env.seed=7": "env.seed",
        "--limit=2": "limit",
    }
    for flag, setting in others.items():
        ended = lab.command(*argv(lab, flag, "--resume"))
        assert ended.code == 2
        assert setting in ended.err
    assert lab.policy.endpoint.requests == []
    assert lab.groups_path().read_bytes() == before


def test_file_without_a_run_directory_is_not_resumed(lab: Lab) -> None:
    lab.groups_path().write_text("mine\n")
    ended = lab.command(*argv(lab, "--resume"))
    assert ended.code == 2
    assert "groups.run is not there" in ended.err.replace("\n", " ")
    assert lab.groups_path().read_text() == "mine\n"


def test_groups_in_the_file_name_their_rows_and_their_calls(lab: Lab) -> None:
    assert lab.process(*FLAGS).code == 0
    calls = CallsOfRows.read(lab.groups_path().with_suffix(".run"))
    groups = lab.groups()
    assert [group["row"]["group"] for group in groups] == list(range(GROUPS))
    for group in groups:
        row = group["row"]
        (asked,) = (
            call for call in calls.select(row["uid"], row["group"]) if call.component == "policy"
        )
        assert asked.messages is not None
        turns = [turn["content"] for turn in group["messages"][0]]
        assert [message["content"] for message in asked.messages] == turns[: len(asked.messages)]
        assert len(turns) == len(asked.messages) + 2 * lab.subject.turns - 1
        assert calls.select(row["uid"]) == [], "those of an evaluation"
        assert all(isinstance(text, str) and text for text in row["texts"].values())
        assert row["question"] and "category" in row
    assert bool(groups[0]["row"]["texts"]) is (
        not lab.subject.title.startswith(
            ("aspect_critique-policy", "prompts", "example-constitution")
        )
    )


def test_groups_without_messages_are_those_of_the_rollout_api_alone(lab: Lab) -> None:
    assert lab.command(*argv(lab, "--env.include_messages=false")).code == 0
    assert b'"row"' not in lab.groups_path().read_bytes()
