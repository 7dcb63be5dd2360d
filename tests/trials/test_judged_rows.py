"""Rows in, judgments out, as `judgegym score` judges: repeats are new calls, and nothing is paid for twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from judgegym.judges.config.sources import LoadedSettings, load
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.scorers.fields import parse_criteria
from judgegym.llm.errors import SettingsError
from judgegym_trials.attacks import targets as attacks
from judgegym_trials.attacks.settings import AttackSettings
from judgegym_trials.audit import asking as audit
from judgegym_trials.judged_rows import (
    DerivedRows,
    JudgedRows,
    RowsSettings,
    judge_rows,
    plan_rows,
    read_tasks,
)
from tests.command import serving, write_lines
from tests.core.datasets.scoring import rated
from tests.scripted import Json

ROWS = {
    "a": JudgeTask("Why?", ("good",), reference="Because."),
    "b": JudgeTask("Why?", ("good",), reference="Because."),
    "a again": JudgeTask("Why?", ("good",), reference="Because.", repeat=1),
    "c": JudgeTask(
        "What?", ("bad", "good"), rubric="Is it short?", levels=((1, "No."), (5, "Yes."))
    ),
    "empty": JudgeTask("What?", (" ",)),
}


def loaded(*words: str) -> LoadedSettings[RowsSettings]:
    return load(RowsSettings, ["--judge_model_name=m", *words], prog="judgegym attack")


def judge(folder: Path, rows: DerivedRows, *words: str) -> JudgedRows:
    return asyncio.run(judge_rows(loaded(*words), rows, folder, ["judgegym", "attack", *words]))


def only(judged: JudgedRows, uid: str) -> tuple[float | None, str, int]:
    """The score and the status of a row with one response, and its calls."""
    (sample,) = judged.by_uid[uid]
    return sample.score, sample.status, len(sample.run.judge_calls or ())


def rating(text: str) -> int:
    return {"good": 5, "bad": 2}[text]


@pytest.mark.slow  # a plan, and two runs
def test_repeats_are_calls_of_their_own_and_equal_rows_share_one(tmp_path: Path) -> None:
    with serving(rated(rating)) as endpoint:
        words = [
            f"--judge_base_url={endpoint.base_url}",
            f"--judge_cache={tmp_path / 'cache.sqlite'}",
        ]
        planned = asyncio.run(
            plan_rows(loaded(*words, "--judge_temperature=0"), ROWS, None)
        ).estimate.total
        judged = judge(tmp_path / "out", ROWS, *words, "--judge_temperature=0")
        assert (planned.low.calls, planned.high.calls) == (4, 4) and len(endpoint.requests) == 4
        assert judge(tmp_path / "cached", ROWS, *words, "--judge_temperature=0") is not None
        assert len(endpoint.requests) == 4
    assert judged.problem is None
    assert [only(judged, uid) for uid in ("a", "b", "a again")] == [
        (1.0, "ok", 1),
        (1.0, "ok", 0),
        (1.0, "ok", 1),
    ]
    assert [one.score for one in judged.by_uid["c"]] == [0.25, 1.0]
    assert only(judged, "empty")[1:] == ("invalid_completion", 0)
    shown = [body["messages"][-1]["content"] for body in endpoint.bodies]
    assert any("Is it short?\nScore 1: No.\nScore 5: Yes." in text for text in shown)
    assert sum("Because." in text for text in shown) == 2


def test_repeats_of_votes_have_seeds_of_their_own(tmp_path: Path) -> None:
    with serving(rated(rating)) as endpoint:
        judge(
            tmp_path,
            {uid: ROWS[uid] for uid in ("a", "b", "a again")},
            f"--judge_base_url={endpoint.base_url}",
            "--samples_per_item=2",
            "--seed=7",
        )
    assert sorted(body["seed"] for body in endpoint.bodies) == [7, 8, 1007, 1008]


def test_a_folder_that_cannot_be_made_is_told_before_the_first_call(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        SettingsError, match=r"--out: .*file/out cannot be written: Not a directory"
    ):
        judge(tmp_path / "file" / "out", ROWS)


def test_what_a_row_has_for_its_judge_survives_the_file(tmp_path: Path) -> None:
    criteria = parse_criteria(
        [{"name": "short", "text": "Is short.", "points": 2}, {"text": "Rude.", "points": -1}]
    )
    rows = {"a": JudgeTask("Why?", ("good",), criteria=criteria, context="Skies.")}

    def met(request: Json, number: int) -> str:
        text = request["messages"][-1]["content"]
        ids = [
            line.split()[1].rstrip("]")
            for line in text.splitlines()
            if line.startswith("[Criterion ")
        ]
        assert "Is short." in text and "Rude." in text and "Skies." in text
        found = ", ".join(f'{{"id": "{own}", "verdict": "met"}}' for own in ids)
        return f'{{"result": [{found}]}}'

    with serving(met) as endpoint:
        judged = judge(tmp_path, rows, f"--judge_base_url={endpoint.base_url}", "--judge=checklist")
    assert judged is not None and only(judged, "a")[0] == pytest.approx(0.5)


def test_rows_that_can_be_read_and_not_judged_are_left_out(tmp_path: Path) -> None:
    rubrics = [
        "Good?",
        {"criteria": "Good?", "score1_description": "no", "score5_description": "yes"},
        "Good?",
    ]
    rows = [
        {"prompt": f"Q {n}", "response": "r", "rubric": rubric, "gold": 50}
        for n, rubric in enumerate(rubrics)
    ]
    given = {
        "judge": "peer",
        "data": str(write_lines(tmp_path / "data.jsonl", rows)),
        "on_bad_row": "skip",
    }
    attacked = AttackSettings.model_validate(given)
    assert [target.number for target in attacks.select_targets(read_tasks(attacked), attacked)] == [
        1,
        3,
    ]
    audited = audit.CalledAuditSettings.model_validate(given)
    found = audit.select_labelled(read_tasks(audited), audited)
    assert [row.uid for row in found.rows] == ["row-1", "row-3"]
    ((reason, count),) = found.left_out.items()
    assert "cannot be judged" in reason and count == 1
