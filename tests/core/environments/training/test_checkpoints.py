"""Checkpoints of an environment, where Atropos keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.environments.training.rollout_api import Registration
from judgegym.environments.training.serve import Checkpoints


def checkpoints(directory: str | Path, number: int = 0, name: str = "arena_hard") -> Checkpoints:
    """Checkpoints of the registration of that number."""
    registration = Registration(
        env_id=number,
        name=f"{name}_{number}",
        checkpoint_dir=str(directory),
        checkpoint_interval=1,
        num_steps=10,
    )
    return Checkpoints(registration, name)


def folder(directory: Path, number: int = 0) -> Path:
    return directory / "env_checkpoints" / f"arena_hard_{number}"


@pytest.mark.parametrize(("step", "found"), [(9, None), (10, 10), (19, 10), (20, 20), (1000, 100)])
def test_the_latest_one_at_or_before_the_step(tmp_path: Path, step: int, found: int | None) -> None:
    """By number and not by name: 100 comes after 20."""
    for number in (100, 10, 20):
        checkpoints(tmp_path).save(number, {"epoch": number})
    assert checkpoints(tmp_path).load(step) == (None if found is None else {"epoch": found})


def test_what_cannot_be_read_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = checkpoints(tmp_path)
    kept.save(1, {"epoch": 1})
    (folder(tmp_path) / "step-2.json").write_text('{"epoch": ')
    (folder(tmp_path) / "step-3.json").write_text("[]")
    (folder(tmp_path) / "step-4.json").mkdir()
    (folder(tmp_path) / "step-last.json").write_text("{}")
    assert kept.load(5) == {"epoch": 1}
    assert sorted(name for name in ("step-2", "step-4") if name in caplog.text) == [
        "step-2",
        "step-4",
    ]


def test_an_environment_that_is_numbered_anew_takes_up_its_earlier_ones(tmp_path: Path) -> None:
    """The API counts registrations; its own come first as soon as there is one for that step."""
    checkpoints(tmp_path, 0).save(1, {"epoch": 1})
    checkpoints(tmp_path, 1).save(5, {"epoch": 5})
    restarted = checkpoints(tmp_path, 2)
    assert [restarted.load(step) for step in (0, 3, 6)] == [None, {"epoch": 1}, {"epoch": 5}]
    restarted.save(4, {"epoch": 4})
    assert [restarted.load(step) for step in (3, 6)] == [{"epoch": 1}, {"epoch": 4}]


@pytest.mark.parametrize(
    "other",
    ["other", "arena_hard_style", "arena_hard_2x"],
)
def test_another_environments_checkpoints_are_not_its_own(tmp_path: Path, other: str) -> None:
    """Though its name may begin with ours."""
    checkpoints(tmp_path, 0, other).save(1, {"epoch": 1})
    assert checkpoints(tmp_path, 1, "arena_hard").load(5) is None


def test_a_name_with_wildcards_is_a_name(tmp_path: Path) -> None:
    checkpoints(tmp_path, 0, "arena").save(1, {"epoch": 1})
    assert checkpoints(tmp_path, 1, "a*").load(5) is None
    checkpoints(tmp_path, 0, "a*[x]").save(1, {"epoch": 2})
    assert checkpoints(tmp_path, 1, "a*[x]").load(5) == {"epoch": 2}


def test_state_that_a_full_disk_refused_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "env_checkpoints").write_text("in the way, as a full disk is")
    kept = checkpoints(tmp_path)
    kept.save(1, {"epoch": 1})
    kept.save(2, {"epoch": 2})
    kept.retry()
    assert len(caplog.records) == 1, "it is said once"
    (tmp_path / "env_checkpoints").unlink()
    kept.retry()
    assert kept.load(9) == {"epoch": 2}
    assert [path.name for path in folder(tmp_path).iterdir()] == ["step-2.json"], (
        "the latest state is enough"
    )
    (folder(tmp_path) / "step-2.json").unlink()
    kept.retry()
    assert not list(folder(tmp_path).iterdir()), "what is written is not written again"
