"""Every run has a log of its own, which says how it was called and how it ended, and no key."""

from __future__ import annotations

import re
from pathlib import Path

from judgegym.engine.runs.log import SEPARATOR
from tests.conformance.lab import HANG, Lab, slow_with_several_models
from tests.conformance.subjects import KEYS

RECORD = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d (DEBUG|INFO|WARNING|ERROR) (.*)"
)


def said(path: Path) -> list[str]:
    """The records of a log, without their times."""
    lines = (path / "run.log").read_text(encoding="utf-8").splitlines()
    found = [RECORD.fullmatch(line) for line in lines]
    assert all(
        match or line.startswith("  ") or line == SEPARATOR
        for line, match in zip(lines, found, strict=True)
    )
    return [match[2] for match in found if match]


@slow_with_several_models
def test_log_of_an_evaluation_says_how_it_was_called_what_came_out_and_how_it_ended(
    lab: Lab,
) -> None:
    path = lab.finished("--env.full_debug=True").path
    records = said(path)
    assert records[0].startswith(f"begun: evaluate {lab.subject.env_type.spec.name}, judgegym ")
    assert records[-1] == "ended"
    text = (path / "run.log").read_text(encoding="utf-8")
    assert f"  env.data_dir_to_save_evals: {path}  [command line]\n" in text
    assert f"eval/{lab.subject.env_type.spec.headline[0]}: " in text
    assert not any(key in text for key in KEYS.values())

    assert lab.evaluate("--resume").code == 0
    again = said(path)
    assert [record for record in again if record.startswith(("begun: ", "resumed: "))] == [
        again[0],
        again[len(records)],
    ]
    assert (path / "run.log").read_text(encoding="utf-8").startswith(text + SEPARATOR)


def test_log_of_a_run_that_fails_says_why(lab: Lab) -> None:
    lab.policy.disturb(lambda uid: HANG)
    lab.judge.disturb(lambda uid: HANG)
    flags = (
        "--openai.timeout=1",
        "--env.judge_timeout=1",
        "--env.policy_deadline=1",
        "--env.judge_deadline=1",
    )
    assert lab.evaluate(*flags).code == 1
    assert said(lab.files().path)[-2].startswith("nothing succeeded")
