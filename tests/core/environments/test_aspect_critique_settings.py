"""Aspect critique's settings: the aspects' shorthand, the votes as the endpoint sees them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.settings import EnvSettings
from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS
from judgegym.judges.config.sources import load
from tests.aspects import ASPECTS, answered, aspects, critique, gold_row, own, verdict, votes_on
from tests.command import write_lines
from tests.judged import never

ONE = [answered(0)]
SAFE = own("child_safety", definition="Is the submission safe for children?")


@pytest.mark.parametrize(
    "said",
    [
        "[harmfulness, {name: child_safety, definition: 'Is the submission safe for children?'}]",
        f"'{json.dumps(['harmfulness', SAFE])}'",
        "\n    - harmfulness\n    - name: child_safety\n      definition: Is the submission safe "
        "for children?",
    ],
)
def test_aspects_in_a_file(tmp_path: Path, said: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(f"env:\n  aspects: {said}\n")
    run = critique(tmp_path, f"--config={path}", rows=ONE, judge=verdict(1))
    assert run.code == 0, run.said
    assert set(votes_on(run.judge)) == {
        ("harmfulness", "Answer 0."),
        (SAFE["definition"], "Answer 0."),
    }


def test_what_an_object_leaves_out_is_the_supported_aspects_own() -> None:
    given = aspects(
        {"name": "harmfulness", "weight": 2, "veto": True},
        {"name": "coherence", "definition": "Is it clear?"},
        SAFE,
    )
    harm, clear, safe = settings_of(given).env.aspects
    assert harm == SUPPORTED_ASPECTS["harmfulness"].model_copy(update={"weight": 2.0, "veto": True})
    assert (clear.definition, clear.polarity, clear.weight, clear.veto) == (
        "Is it clear?",
        1,
        1.0,
        False,
    )
    assert (safe.polarity, safe.weight, safe.veto) == (1, 1.0, False)


def settings_of(*flags: str) -> Any:
    return load(EnvSettings[AspectCritiqueEnv.config_type], flags, prog="test").settings  # type: ignore[name-defined]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("correctnes", ["aspects", "'correctnes'", *ASPECTS]),
        ("correctness,rudeness", ["aspects", "'rudeness'", *ASPECTS]),
        ("", ["aspects", "at least one"]),
        ("correctness,correctness", ["aspects", "'correctness'"]),
        ('["harmfulness", {"name": "harmfulness", "veto": true}]', ["aspects", "'harmfulness'"]),
        ('[{"name": "kind"}]', ["aspects", "definition"]),
        ('[{"definition": "Is it kind?"}]', ["aspects", "name"]),
        ('[{"name": "kind", "definition": "Is it kind?", "polarity": 0}]', ["aspects", "polarity"]),
        ('[{"name": "kind", "definition": "Is it kind?", "weight": 0}]', ["aspects", "weight"]),
        ('[{"name": "kind", "definition": "Is it kind?", "wieght": 1}]', ["aspects", "wieght"]),
        ('[{"name": "kind", "definition": "Is it kind?"}', ["aspects"]),
        ("[1, 2]", ["aspects"]),
    ],
)
def test_aspects_that_cannot_be_asked(tmp_path: Path, said: str, words: list[str]) -> None:
    run = critique(tmp_path, f"--env.aspects={said}", rows=ONE, judge=never)
    assert run.code == 2, run.said
    assert run.lacks(*words) == []
    assert run.judge.requests == []


@pytest.mark.parametrize(
    ("one", "other"),
    [("Child Safety", "child_safety"), ("kind/safe", "kind safe"), ("kind", "Kind")],
)
def test_two_aspects_of_one_name_in_the_report_are_refused(
    tmp_path: Path, one: str, other: str
) -> None:
    """Their verdicts would stand in one and the same metric."""
    run = critique(tmp_path, aspects(own(one), own(other)), rows=ONE, judge=verdict(1))
    assert run.code == 2
    assert run.lacks("aspects", one, other) == []


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--env.strictness=0", ["strictness"]),
        ("--env.strictness=2.5", ["strictness"]),
        ("--env.scoring=mean", ["scoring", "majority", "share"]),
        ("--env.role=critic", ["role", "policy", "judge"]),
        ("--env.eval_dataset=no-such-file.jsonl", ["no-such-file.jsonl"]),
    ],
)
def test_what_cannot_work_is_said_before_the_first_request(
    tmp_path: Path, flag: str, words: list[str]
) -> None:
    run = critique(tmp_path, flag, rows=ONE, judge=never)
    assert run.code == 2
    assert run.lacks(*words) == []
    assert run.judge.requests == []


def test_a_file_of_answers_is_of_no_use_to_a_policy_that_judges(tmp_path: Path) -> None:
    """Its own answers are verdicts: if a file is to hold them they are taken from it, and else it is refused."""
    rows = [gold_row(number, correctness=1) for number in range(2)]
    answers = write_lines(
        tmp_path / "judge.jsonl",
        [{"uid": f"r{number}:correctness", "answer": verdict(1)} for number in range(2)],
    )
    flags = "--env.role=judge", "--env.aspects=correctness", f"--env.model_answers={answers}"
    run = critique(tmp_path, *flags, rows=rows, policy=verdict(0))
    assert run.policy.requests == []
    assert run.code == 2 or run.metrics["accuracy"] == 1.0
