"""A dataset that somebody writes to while a run reads it ends the run with one line that names it; nothing is lost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.command import Ended
from tests.conformance.lab import Lab, Undisturbed, slow_with_several_models
from tests.scripted import Reply


def datasets_of(lab: Lab) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in lab.path.glob("*.jsonl")}


def overwrite_at_first_request(lab: Lab, datasets: Mapping[Path, bytes]) -> None:
    """Write other rows into the datasets, as long as they were, as soon as the policy is asked about one."""

    unwritten = dict(datasets)

    def overwrite(uid: str) -> Reply | None:
        while unwritten:
            path, content = unwritten.popitem()
            path.write_bytes(content.replace(b"child", b"adult"))
        return None

    lab.policy.disturb(overwrite)


def check(ended: Ended, datasets: Mapping[Path, bytes]) -> None:
    assert ended.code == 2, ended.said
    (line,) = [line for line in ended.said.splitlines() if "file has changed" in line]
    assert any(line.startswith(f"{path}: ") for path in datasets), ended.said


@slow_with_several_models
def test_dataset_that_changes_ends_evaluate_and_a_resumed_run_is_the_undisturbed_one(
    lab: Lab, undisturbed: Undisturbed
) -> None:
    datasets = datasets_of(lab)
    overwrite_at_first_request(lab, datasets)
    check(lab.evaluate(*lab.subject.limits(1)), datasets)
    lab.policy.restore()
    for path, content in datasets.items():
        path.write_bytes(content)
    undisturbed.same_results(lab.finished("--resume"))


def test_dataset_that_changes_ends_process(lab: Lab) -> None:
    datasets = datasets_of(lab)
    overwrite_at_first_request(lab, datasets)
    (lab.path / "folder").mkdir()
    flags = "--env.group_size=2", "--env.total_steps=4", "--env.max_num_workers=1"
    check(lab.process(*flags, groups="folder/groups"), datasets)
