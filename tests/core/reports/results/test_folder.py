"""What is found in a folder of runs, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.llm.errors import RunDirectoryError
from judgegym.llm.wire import JSON
from judgegym.reports.results import run as run_module
from judgegym.reports.results.folder import SavedGroups, UnreadableRun, find_run_paths, list_runs
from judgegym.reports.results.run import SavedRun
from tests.core.engine.samples_of import sample
from tests.core.reports.results.test_run import GENERAL, written


def names(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in find_run_paths(folder)]


def groups(folder: Path, name: str = "groups") -> Path:
    """A file of groups with its run directory."""
    (folder / f"{name}.run").mkdir(parents=True)
    (folder / f"{name}.run" / "config.yaml").write_text("openai: {model_name: a-policy}\n")
    (folder / f"{name}.jsonl").write_text("{}\n{}\n")
    return folder / f"{name}.jsonl"


def test_runs_evaluations_of_serve_and_files_of_groups_are_found_at_any_depth(
    tmp_path: Path,
) -> None:
    written(tmp_path / "one", [sample()], general=GENERAL)
    written(tmp_path / "serve" / "step-10", [sample()])
    groups(tmp_path / "process")
    written(tmp_path / "process" / "groups.run" / "step-2", [sample()])
    written(tmp_path / "a" / "b" / "c" / "d", [sample()])
    written(tmp_path / "a" / "b" / "c" / "e" / "too deep", [sample()])
    written(tmp_path / ".hidden", [sample()])
    written(tmp_path / "one" / "within", [sample()])
    assert names(tmp_path) == [
        "a/b/c/d",
        "one",
        "process/groups.jsonl",
        "process/groups.run/step-2",
        "serve/step-10",
    ]
    found = {run.path.name: run for run in list_runs(tmp_path)}
    assert isinstance(found["one"], SavedRun) and not isinstance(
        found["groups.jsonl"], UnreadableRun
    )
    assert (
        isinstance(found["groups.jsonl"], SavedGroups)
        and found["groups.jsonl"].run.policy == "a-policy"
    )
    assert names(tmp_path / "process" / "groups.run" / "step-2") == ["."]


def test_no_symbolic_link_is_followed(tmp_path: Path) -> None:
    outside, folder = written(tmp_path / "outside", [sample()]), tmp_path / "runs"
    target = groups(tmp_path / "elsewhere")
    folder.mkdir()
    (folder / "linked").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    (folder / "groups.run").mkdir()
    (folder / "groups.run" / "config.yaml").write_text("")
    (folder / "groups.jsonl").symlink_to(target)
    assert names(folder) == []
    (tmp_path / "alias").symlink_to(folder)
    written(folder / "inside", [sample()])
    assert names(tmp_path / "alias") == ["inside"], "the folder that is given may be a link"


def test_damaged_settings_of_groups_are_told(tmp_path: Path) -> None:
    groups(tmp_path).with_suffix(".run").joinpath("config.yaml").write_text("env: [")
    (run,) = list_runs(tmp_path)
    assert (
        isinstance(run, UnreadableRun)
        and "config.yaml" in run.reason
        and run.path.name == "groups.jsonl"
    )


def test_a_folder_that_may_not_be_read_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "one", [sample()], general=GENERAL)
    (tmp_path / "closed").mkdir()
    listed = Path.iterdir

    def refused(path: Path) -> object:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refused)
    assert {run.path.name: isinstance(run, UnreadableRun) for run in list_runs(tmp_path)} == {
        "one": False,
        "closed": True,
    }
    with pytest.raises(RunDirectoryError, match="closed cannot be read: Permission denied"):
        list_runs(tmp_path / "closed")


def test_a_run_of_which_every_row_failed_is_found(tmp_path: Path) -> None:
    run = written(tmp_path / "failed", [sample()])
    (run / "samples.jsonl").rename(run / "failures.jsonl")
    assert names(tmp_path) == ["failed"]
    (found,) = list_runs(tmp_path)
    assert isinstance(found, SavedRun) and not found.is_complete


def test_the_folder_may_be_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "one", [sample()])
    monkeypatch.chdir(tmp_path)
    assert names(Path()) == ["one"]


def test_a_run_that_is_removed_while_it_is_read_ends_no_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "one", [sample()])
    written(tmp_path / "two", [sample()], general=GENERAL)

    def removing(path: Path) -> JSON:
        for file in path.iterdir():
            file.unlink()
        return {}

    monkeypatch.setattr(run_module, "read_settings", removing)
    found = list_runs(tmp_path)
    assert sorted(run.path.name for run in found) == ["one", "two"]
    assert all(run.date is not None for run in found)


def test_a_run_without_a_finished_row_is_found_by_its_log(tmp_path: Path) -> None:
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.yaml").write_text("openai: {model_name: a-policy}\n")
    assert names(tmp_path) == []
    (tmp_path / "begun" / "run.log").write_text("")
    (run,) = list_runs(tmp_path)
    assert isinstance(run, SavedRun) and (run.policy, run.is_complete) == ("a-policy", False)
