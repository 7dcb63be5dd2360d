"""Juries of the environments' own judges: scores, whose verdicts the detail has, failures, metrics by member."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from judgegym.environments.aspect_critique_environment import (
    AspectCritiqueConfig,
    AspectCritiqueEnv,
)
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteConfig
from judgegym.environments.rubric_checklist_environment import RubricChecklistConfig
from judgegym.eval_environments.arena.environment import ArenaHardConfig
from judgegym.llm.errors import SettingsError
from tests import aspects
from tests.core.engine.settings_of import settings_of
from tests.judged import Judged, evaluate
from tests.scripted import Json, Reply, Script

FOUND: Mapping[str, Mapping[str, str | None]] = {
    "a": {"Answer 0.": "hs", "Answer 1.": "s", "Answer 2.": "h"},
    "b": {"Answer 0.": "s", "Answer 1.": "s", "Answer 2.": None},
    "c": {"Answer 0.": "", "Answer 1.": None, "Answer 2.": None},
}
"""By member and answer the letters of what it finds, help or shortness, half a point each; `None`: it fails."""
NAMES = {"h": "helps", "s": "short"}
MEMBERS = ("--env.judges=a,b,c", "--env.max_judge_error_rate=1", "--env.judge_max_retries=0")


def by_model(reply: Callable[[Json, str], str], answer_in: Callable[[Json], str]) -> Script:
    """Members that find what `FOUND` says."""

    def script(request: Json, number: int) -> Reply | str:
        found = FOUND[request["model"]][answer_in(request)]
        return Reply(status=400) if found is None else reply(request, found)

    return script


def aspect_reply(request: Json, found: str) -> str:
    return aspects.verdict(aspects.asked(request)[0][0] in found)


def judged_aspects(path: Path, *flags: str) -> Judged:
    judge = by_model(aspect_reply, lambda request: aspects.asked(request)[1])
    asked = f"--env.aspects={json.dumps([{'name': name, 'definition': name} for name in NAMES.values()])}"
    return evaluate(
        AspectCritiqueEnv, path, asked, *flags, rows=[*map(aspects.answered, range(3))], judge=judge
    )


def verdicts_of(run: Judged) -> Mapping[str, str]:
    """By row, the letters of what the detail says that was found."""
    found: dict[str, str] = {}
    for sample in run.files.samples:
        said = {each["aspect"]: each["yes"] for each in sample["detail"]["aspects"]}
        found[sample["uid"]] = "".join(letter for letter, name in NAMES.items() if said[name])
    return found


@pytest.mark.slow
def test_members_count_and_fail_and_the_verdicts_are_those_of_the_nearest(tmp_path: Path) -> None:
    run = judged_aspects(tmp_path, *MEMBERS)
    assert run.code == 0, run.said
    assert run.scores() == {"r0": pytest.approx(0.5), "r1": pytest.approx(0.5)}
    assert run.scores("members") == {
        "r0": {"a": 1.0, "b": 0.5, "c": 0.0},
        "r1": {"a": 0.5, "b": 0.5},
    }
    assert verdicts_of(run) == {"r0": "s", "r1": "s"}
    (failed,) = run.files.failures
    assert (failed["uid"], failed["status"], failed["detail"]) == ("r2", "judge_failed", None)
    assert "1 members " in failed["error"] and "the quorum is 2: b: " in failed["error"]
    wanted = {"part_a": 0.75, "part_b": 0.5, "part_c": 0.0}
    wanted |= {"part_a_missing_rate": 0.0, "part_b_missing_rate": 0.0, "part_c_missing_rate": 0.5}
    wanted |= {
        "part_a_agreement_rate": 0.5,
        "part_b_agreement_rate": 1.0,
        "part_c_agreement_rate": 0.0,
    }
    assert run.some(*wanted) == pytest.approx(wanted)
    report = {
        member["name"]: (member["rows"], member["mean"])
        for member in run.general["judges"]["members"]
    }
    assert report == {"a": (2, 0.75), "b": (2, 0.5), "c": (1, 0.0)}


@pytest.mark.slow
def test_a_member_that_does_not_count_lends_no_verdicts(tmp_path: Path) -> None:
    run = judged_aspects(tmp_path, *MEMBERS, "--env.jury_weights=a=1,c=1", "--env.jury_quorum=2")
    assert run.scores() == {"r0": pytest.approx(0.5)}
    assert verdicts_of(run) == {"r0": "hs"}, "b is as near as can be, and does not count"
    assert run.metrics["part_b"] == 0.5


@pytest.mark.parametrize(
    ("config", "given", "said"),
    [
        (AspectCritiqueConfig, {"aspects": "correctness"}, "judges.x.aspects: all members"),
        (RubricChecklistConfig, {"formula": "rar"}, "judges.x.formula: all members"),
        (RubricAbsoluteConfig, {"scale_max": 7}, "judges.x.scale_max: all members"),
        (AspectCritiqueConfig, {"judge": "rubric"}, "judges.x.judge: it is aspect here"),
        (RubricChecklistConfig, {"strictnes": 3}, "strictnes"),
    ],
)
def test_a_member_with_a_setting_that_nothing_reads_is_refused(
    config: Any, given: Json, said: str
) -> None:
    judges = [{"judge_model_name": "x", **given}, {"judge_model_name": "y"}]
    with pytest.raises(ValidationError, match=said):
        config(judges=judges)
    assert (
        config(judges=[{"judge_model_name": "x"}, {"judge_model_name": "y"}]).judge_name() == "x+y"
    )


@pytest.mark.parametrize("config", [AspectCritiqueConfig, RubricChecklistConfig])
@pytest.mark.parametrize(("name", "value"), [("role", "judge"), ("group_judge", "listwise")])
def test_a_jury_judges_each_answer_by_itself(config: Any, name: str, value: str) -> None:
    with pytest.raises(ValidationError, match=f"a jury .* with {name}"):
        config(judges="a,b", **{name: value})


def test_how_scores_make_one_is_a_setting_of_a_jury_alone() -> None:
    with pytest.raises(
        SettingsError, match=r"jury_rule \(command line\): .* without --env\.judges"
    ):
        settings_of(AspectCritiqueEnv, "--env.jury_rule=median", verb="evaluate")
    alone = settings_of(AspectCritiqueEnv, verb="evaluate").public()["env"]
    assert isinstance(alone, dict) and "judges" in alone and "jury_rule" not in alone
    jury = settings_of(
        AspectCritiqueEnv, "--env.judges=a,b", "--env.jury_rule=median", verb="evaluate"
    )
    assert (jury.env.jury_rule, jury.env.is_jury, jury.env.part_names) == (
        "median",
        True,
        ["a", "b"],
    )


MODELS = [{"name": name, "answers": "answers.jsonl"} for name in "xy"]


@pytest.mark.parametrize(
    ("name", "value"), [("candidates", MODELS), ("candidates_play", "baseline")]
)
def test_candidates_have_no_jury(name: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=f"a jury .* with {name}"):
        config: Any = ArenaHardConfig
        config(judges="a,b", **{name: value})
