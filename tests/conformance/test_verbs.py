"""A setting that a verb does not use is refused where it was set on purpose, and the message says where it belongs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.command import in_process
from tests.conformance.lab import Lab
from tests.conformance.subjects import Subject, Verb

# The setting as a flag and as a variable, the verb that does not use it, and one that does.
FOREIGN: list[tuple[str, str, Verb, Verb]] = [
    ("env.group_size", "4", "evaluate", "serve"),
    ("env.rollout_server_url", "http://127.0.0.1:9", "evaluate", "serve"),
    ("limit", "3", "serve", "evaluate"),
    ("env.max_judge_error_rate", "0.5", "process", "evaluate"),
]


def refused(lab: Lab, *argv: str, words: list[str], **env: str) -> None:
    """The command ends with 2 and these words, before anything is asked or written."""
    ended = lab.command(*argv, **env)
    assert ended.code == 2, ended.said
    said = " ".join(ended.err.split())
    assert [word for word in words if word not in said] == [], said
    assert lab.requests == 0
    assert not lab.files().path.exists()


@pytest.mark.parametrize(("setting", "value", "verb", "other"), FOREIGN)
def test_setting_of_another_verb_is_refused(
    lab: Lab, setting: str, value: str, verb: Verb, other: Verb
) -> None:
    flag, variable = f"--{setting}={value}", f"JUDGEGYM_{setting.upper().replace('.', '__')}"
    argv = [verb, *lab.data(verb), *lab.subject.role]
    refused(lab, *argv, flag, words=[f"--{setting}", verb, other])
    refused(lab, *argv, words=[variable, verb, other], **{variable: value})


def test_file_may_hold_settings_of_several_verbs(lab: Lab) -> None:
    path = lab.path / "several.yaml"
    path.write_text(yaml.safe_dump({"env": {"group_size": 4, "total_steps": 7}}), encoding="utf-8")
    lab.evaluate(f"--config={path}").successful()


def test_a_profile_of_an_evaluation_names_the_rows_work(subject: Subject, tmp_path: Path) -> None:
    path = tmp_path / "profile.html"
    argv = "evaluate", "--offline", *subject.role, "--limit=3", f"--profile={path}"
    ended = in_process(
        *argv, f"--env.data_dir_to_save_evals={tmp_path / 'run'}", env_type=subject.env_type
    )
    assert ended.code == 0 and str(path) in ended.err
    assert "judgegym/environments/evaluate" in path.read_text()
