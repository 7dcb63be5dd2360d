"""`python -m examples.tiny_grpo`: its command line, and what it shows."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from examples.tiny_grpo import __main__ as command
from examples.tiny_grpo.children import ChildFailed
from examples.tiny_grpo.curve import Curve, SeedRun, Step, read_curves
from examples.tiny_grpo.run import Plan


def step(number: int, reward: float) -> Step:
    return Step(number, reward, reward, 1.0, 24.0, 1.0, 0.01, 0.1, 0.0, 1.0, 8.0, 0.0)


def run(seed: int, rewards: list[float]) -> SeedRun:
    return SeedRun(
        seed,
        tuple(step(n, each) for n, each in enumerate(rewards, 1)),
        1.0,
        len(rewards) * 8,
        0,
        12.5,
    )


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda module: module)


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as ended:
        command.main(argv)
    said = capsys.readouterr()
    assert ended.value.code == 2 and said.out == "" and said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--steps=19",), "--steps: 19 .*too few"),
        (("--steps=many",), "--steps: .*whole number from 1, found many"),
        (("--seeds=0",), "--seeds: .*whole number from 1, found 0"),
        (("--judge=mine",), "--judge"),
        (("--unknown",), "--unknown"),
    ],
)
def test_a_wrong_flag_is_one_line(
    argv: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert re.search(said, refused(capsys, *argv))


def test_a_folder_that_is_in_use_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], installed: None
) -> None:
    (tmp_path / "curve.json").touch()
    assert "is not empty" in refused(capsys, f"--out={tmp_path}")
    assert "cannot be used" in refused(capsys, f"--out={tmp_path / 'curve.json'}")


def test_without_torch_a_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda module: None if module == "torch" else module)
    assert "torch is not installed" in refused(capsys, f"--out={tmp_path / 'out'}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("last", "code"), [(0.9, 0), (0.1, 1)])
def test_it_writes_the_curves_and_says_whether_all_seeds_learned(
    last: float,
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    installed: None,
) -> None:
    async def trained(plan: Plan) -> Curve:
        rewards = [0.1, 0.11] * 5 + [last if plan.seeds[-1] == 1 else 0.9] * 10
        return Curve(
            plan.task.title, plan.command, tuple(run(seed, rewards) for seed in plan.seeds)
        )

    monkeypatch.setattr(command, "train_seeds", trained)
    out = tmp_path / "out"
    assert command.main(["--seeds=2", "--steps=20", f"--out={out}"]) == code
    said = capsys.readouterr().out
    assert f"learned: {'yes' if code == 0 else 'no'}, in " in said
    assert max(map(len, said.replace(str(tmp_path), "").splitlines())) <= 80
    curves = read_curves(out / "curve.json")
    assert [(curve.name, len(curve.runs)) for curve in curves] == [
        ("scripted judge", 2),
        ("offline judge", 2),
        ("judge and length penalty", 2),
    ]
    assert curves[1].command.endswith("--judge=offline --seeds=2 --steps=20")
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_process_that_fails_is_its_message_and_exit_code_1(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    installed: None,
) -> None:
    async def failing(plan: Plan) -> Curve:
        await asyncio.sleep(0)
        raise ChildFailed("the judge ended with exit code 1; the end of judge.log:\n  no more")

    monkeypatch.setattr(command, "train_seeds", failing)
    assert command.main([f"--out={tmp_path}"]) == 1
    assert (
        capsys.readouterr().err
        == "the judge ended with exit code 1; the end of judge.log:\n  no more\n"
    )
