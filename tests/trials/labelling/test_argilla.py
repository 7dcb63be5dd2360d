"""Rows and labels in Argilla's form: what is exported is imported again, for each kind of question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judgegym.llm.errors import DataError
from judgegym_trials.labelling.argilla import labels_of, records_of
from judgegym_trials.labelling.session import LabelPlan, Session
from tests.trials.labelling.made import run_of, session_of

VALUES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.0, 0.0, 0.5)
SCALE = {"scale_min": 1, "scale_max": 5}
ASPECTS = [{"name": "is right", "definition": "Is it right?"}, {"name": "short", "definition": "Is it short?"}]
KINDS = {
    "comparison": ({}, {}, "abt"),
    "scale": (SCALE, {"environment": "rubric_absolute", "texts": {"rubric": "the rubric"}}, "135"),
    "aspects": ({"aspects": ASPECTS}, {"environment": "aspect_critique", "texts": {}}, ["yn", "ny", "yy"]),
}


def imported(session: Session, path: Path, records: Any) -> dict[tuple[str, str], float | None]:
    path.write_text(json.dumps(records))
    return {label.key: label.label for label in labels_of(session, path)}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_exported_is_imported_again(tmp_path: Path, kind: str) -> None:
    config, general, answers = KINDS[kind]
    run = run_of(tmp_path / "run", VALUES, config, **general)
    with session_of(run, LabelPlan(8, overlap=2)) as session:
        for labeller in ("ann", "ben"):
            for keys in answers:
                uid = session.next_row(labeller)
                assert uid is not None
                session.save(uid, labeller, keys, "")
        uid = session.next_row("eve")
        assert uid is not None
        session.save(uid, "eve", None, "")
        given = {key: label.label for key, label in session.labels.given.items()}
        records = records_of(session, 5)
        assert imported(session, tmp_path / "records.json", records) == pytest.approx(given)
        assert len(records) == 5 and len(given) > 5


def test_a_record_has_the_fields_of_argilla_2_and_no_name_of_a_model(tmp_path: Path) -> None:
    with session_of(run_of(tmp_path / "run", VALUES)) as session:
        (record, *_) = records_of(session, 3)
        is_first = session.is_first(record["id"], "argilla")
    assert [*record] == ["id", "fields", "metadata", "suggestions", "responses", "vectors"]
    number = record["id"].partition("/")[2]
    both = [f"an answer to {number}", f"the baseline's answer to {number}"][:: 1 if is_first else -1]
    fields = {"question": f"Question {number}", "response_a": both[0], "response_b": both[1]}
    assert record["fields"] == fields and record["responses"] == {}


def test_users_of_argilla_are_labellers_by_their_id(tmp_path: Path) -> None:
    with session_of(run_of(tmp_path / "run", VALUES)) as session:
        uid = session.order[0]
        value = "A is better" if session.is_first(uid, "argilla") else "B is better"
        records = [{"id": uid, "responses": {"label": [{"value": value, "user_id": "u-1"}]}}]
        assert imported(session, tmp_path / "records.json", records) == {(uid, "u-1"): 1.0}


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ({"id": "zeta-policy/0"}, "expected a list of records"),
        ([{"id": "row-9"}], "record 1: the id 'row-9' is no row"),
        ([{"id": "zeta-policy/0", "responses": {"label": [{"value": "C", "user_id": "u"}]}}], "label is 'C'; expected"),
    ],
)
def test_other_files_are_refused_with_the_record(tmp_path: Path, records: Any, reason: str) -> None:
    with session_of(run_of(tmp_path / "run", VALUES)) as session, pytest.raises(DataError, match=reason):
        imported(session, tmp_path / "records.json", records)


def test_a_user_who_leaves_a_question_out_is_refused(tmp_path: Path) -> None:
    config, general, _ = KINDS["aspects"]
    with session_of(run_of(tmp_path / "run", VALUES, config, **general)) as session:
        records = [{"id": session.order[0], "responses": {"is_right": [{"value": "yes", "user_id": "u"}]}}]
        with pytest.raises(DataError, match="record 1: user u answers 1 of 2 questions"):
            imported(session, tmp_path / "records.json", records)
