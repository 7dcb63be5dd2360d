"""Completions of one environment are judged by another if they are answers to the same questions, and not otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import Ended
from tests.conformance.lab import Lab, opened
from tests.conformance.subjects import SUBJECTS
from tests.conformance.test_judged_again import completions

BY_TITLE = {subject.title: subject for subject in SUBJECTS}


def judged_elsewhere(then: str, now: str, path: Path, stand_in_url: str) -> tuple[Lab, Lab, Ended]:
    """Evaluate with one environment, and judge its run by another."""
    for name in ("then", "now"):
        (path / name).mkdir()
    with opened(BY_TITLE[then], path / "then", stand_in_url) as first:
        first.finished()
    with opened(BY_TITLE[now], path / "now", stand_in_url) as second:
        return first, second, second.evaluate(f"--env.model_answers={first.files().path}")


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("aspect_critique-policy", "example-constitution"),
        ("example-constitution", "aspect_critique-policy"),
        ("arena_hard", "example-constitution"),
    ],
)
def test_answers_to_the_same_questions_are_judged_by_another_environment(
    then: str, now: str, tmp_path: Path, stand_in_url: str
) -> None:
    first, second, ended = judged_elsewhere(then, now, tmp_path, stand_in_url)
    assert ended.code == 0, ended.said
    assert completions(second.files()) == completions(first.files())
    assert second.policy.endpoint.requests == []
    assert (
        second.files().report["config_general"]["answers_of"]["environment"]
        == first.subject.env_type.spec.name
    )


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        ("rubric_absolute-judge", "rubric_absolute-policy", "they are verdicts"),
        ("rubric_absolute-policy", "rubric_absolute-judge", "no verdicts"),
        ("arena_hard", "pairwise_judgement", "shown other answers"),
        ("pairwise_judgement", "arena_hard", "they are verdicts"),
        ("rubric_absolute-policy", "example-constitution", "another question"),
        ("self_critique", "example-constitution", "candidates"),
    ],
)
def test_other_completions_are_refused_before_the_first_call(
    then: str, now: str, expected: str, tmp_path: Path, stand_in_url: str
) -> None:
    first, second, ended = judged_elsewhere(then, now, tmp_path, stand_in_url)
    assert ended.code == 2, ended.said
    assert expected in ended.err and str(first.files().path) in ended.err
    assert second.requests == 0
