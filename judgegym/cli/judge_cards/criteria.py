"""Lists of criteria of other tools: autorubric, verifiers, HealthBench, Rubrics as Rewards.

Each becomes a checklist judge, whose words around the criteria are its own. Sources: packages and
data sets as read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from judgegym.cli.judge_cards.imports import (
    FieldNames,
    ImportedJudge,
    ImportNotes,
    NotCarriedError,
    require_object,
)
from judgegym.judges.checklists.criteria import read_criteria
from judgegym.judges.checklists.prompt import ChecklistJudgeSettings
from judgegym.judges.scorers.registry import built_in_kind

_OWN_WORDS = "prompt: the checklist judge's own words around the criteria"


def is_autorubric(values: object) -> bool:
    """Return whether these are the criteria of autorubric."""
    entries = _list_autorubric(values)
    return bool(entries) and all(
        isinstance(entry, Mapping) and isinstance(entry.get("requirement"), str)
        for entry in entries
    )


def _list_autorubric(values: Any) -> list[Any]:
    """Return the criteria of a list, of an object with one, or of its sections."""
    if isinstance(values, Mapping):
        if "rubric" in values:
            return _list_autorubric(values["rubric"])
        values = values.get("sections", values.get("criteria"))
    if not isinstance(values, list):
        return []
    criteria: list[Any] = []
    for entry in values:
        if isinstance(entry, Mapping) and isinstance(entry.get("criteria"), list):
            criteria += entry["criteria"]
        else:
            criteria.append(entry)
    return criteria


def import_autorubric(values: Any, fields: FieldNames, notes: ImportNotes) -> ImportedJudge:
    """Import a rubric: a list of criteria, or an object with such a list or its sections.

    Raises:
        NotCarriedError: there are no criteria.
    """
    if not is_autorubric(values):
        raise NotCarriedError("criteria: expected objects with a requirement")
    options: Mapping[str, Any] = values if isinstance(values, Mapping) else {}
    notes.check_names(options, ("criteria", "sections", "rubric", "name"), "")
    criteria = [
        _convert_autorubric(entry, f"criteria[{index}]", notes)
        for index, entry in enumerate(_list_autorubric(values))
    ]
    name = str(options.get("name", ""))
    judge = make_checklist(name, criteria, "weighted_mean", "", notes)
    return replace(judge, judge={**judge.judge, "cannot_assess": "leave_out"})


def _convert_autorubric(entry: Mapping[str, Any], path: str, notes: ImportNotes) -> dict[str, Any]:
    known_names = ("name", "weight", "requirement", "options", "scale_type")
    notes.check_names(entry, known_names, f"{path}.")
    criterion: dict[str, Any] = {
        "text": entry["requirement"],
        "points": entry.get("weight", 10.0),
    }
    if entry.get("name"):
        criterion["name"] = entry["name"]
    options = entry.get("options") or []
    if not isinstance(options, list):
        raise NotCarriedError(f"{path}.options: expected objects with label and value")
    for option in options:
        if not isinstance(option, Mapping) or "label" not in option or "value" not in option:
            raise NotCarriedError(f"{path}.options: expected objects with label and value")
        if option.get("na"):
            raise NotCarriedError(f"{path}.options: {option['label']!r}: a label for N/A")
    if options:
        criterion["options"] = {str(option["label"]): option["value"] for option in options}
    return criterion


def is_verifiers_rubric(values: object) -> bool:
    """Return whether these are a plugged judge of verifiers, or the criteria of its rubric."""
    if not isinstance(values, Mapping):
        return False
    is_plugged = values.get("id") in ("rubric", "reference", "decision")
    return is_plugged or ("id" not in values and _are_entries(values.get("criteria"), "text"))


def import_verifiers_rubric(
    values: Mapping[str, Any], fields: FieldNames, notes: ImportNotes
) -> ImportedJudge:
    """Import the plugged judge `rubric`: its settings, or the criteria that `path` names there.

    Raises:
        NotCarriedError: it is another plugged judge, whose prompt is in its package.
    """
    require_object(values)
    kind = values.get("id", "rubric")
    if kind != "rubric":
        raise NotCarriedError(f"id: {kind}: its prompt is in its package, not in this file")
    if "path" in values and "criteria" not in values:
        raise NotCarriedError(f"path: import the criteria themselves: {values['path']}")
    weights = values.get("weights") or {}
    require_object(weights, "weights")
    for name in ("base_url", "sampling", "prompt"):
        if name in values:
            notes.not_carried.append(f"{name}: give it to the command")
    notes.check_names(
        values,
        ("id", "name", "criteria", "path", "weights", "model", "base_url", "sampling", "prompt"),
        "",
    )
    criteria = [
        _convert_verifiers(entry, f"criteria[{index}]", weights)
        for index, entry in enumerate(_require_list(values, "criteria"))
    ]
    name = str(values.get("name") or kind)
    return make_checklist(name, criteria, "rar", str(values.get("model", "")), notes)


def _convert_verifiers(entry: object, path: str, weights: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("text"), str):
        raise NotCarriedError(f"{path}: expected an object with name and text")
    unknown = [name for name in entry if name not in ("name", "text", "weight", "choices")]
    if unknown:
        raise NotCarriedError(f"{path}.{unknown[0]}: verifiers has no such field")
    name = str(entry.get("name", ""))
    weight = weights.get(name, entry.get("weight", 1.0))
    if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
        raise NotCarriedError(f"{path}.weight: expected a number of at least 0, found {weight!r}")
    criterion: dict[str, Any] = {"text": entry["text"], "points": weight}
    if name:
        criterion["name"] = name
    if "choices" in entry:
        choices = _require_list(entry, "choices", path)
        criterion["options"] = rank_labels([str(choice) for choice in choices])
    return criterion


def is_rubric_rows(values: object) -> bool:
    """Return whether these are rows of HealthBench or of Rubrics as Rewards."""
    rows = values if isinstance(values, list) else [values]
    return bool(rows) and all(_find_row_criteria(row) is not None for row in rows)


def import_rubric_rows(values: Any, fields: FieldNames, notes: ImportNotes) -> ImportedJudge:
    """Import the judge of rows with criteria of their own.

    The criteria stay in the rows, which `judgegym score` reads as they are. Those of a single
    object, which is no list of rows, become the card's.

    Raises:
        NotCarriedError: a row's criteria cannot be read.
    """
    rows = values if isinstance(values, list) else [values]
    if not rows:
        raise NotCarriedError("expected rows with criteria, found none")
    for number, row in enumerate(rows, start=1):
        column = _find_row_criteria(row)
        if column is None:
            raise NotCarriedError(f"row {number}: expected rubrics or rubric with criteria")
        try:
            read_criteria(row[column])
        except ValueError as error:
            raise NotCarriedError(f"row {number}: {error}") from None
    is_health = all("rubrics" in row for row in rows)
    formula = "healthbench" if is_health else "rar"
    if is_health:
        notes.not_carried.append("score below 0: it is 0, and stands as raw in the judgment")
    if not isinstance(values, list):
        criteria = list(values[_find_row_criteria(values) or ""])
        return make_checklist("", criteria, formula, "", notes)
    notes.differs.append(_OWN_WORDS)
    notes.differs.append("criteria: they stay in the rows; score this file with the card")
    section = {
        "kind": built_in_kind(ChecklistJudgeSettings),
        "formula": formula,
        "criteria_per_call": 1,
    }
    return ImportedJudge("", {}, section)


def _find_row_criteria(row: object) -> str | None:
    if not isinstance(row, Mapping):
        return None
    for column, text in (("rubrics", "criterion"), ("rubric", "description")):
        if _are_entries(row.get(column), text):
            return column
    return None


def _are_entries(value: object, name: str) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(entry, Mapping) and isinstance(entry.get(name), str) for entry in value)


def _require_list(values: Mapping[str, Any], name: str, path: str = "") -> Sequence[Any]:
    value = values.get(name)
    if not isinstance(value, list) or not value:
        prefix = f"{path}." if path else ""
        raise NotCarriedError(f"{prefix}{name}: expected a list that is not empty")
    return value


def rank_labels(labels: Sequence[str]) -> dict[str, float]:
    """Return the values of labels, from 0 for the worst, which is the first, to 1 for the best."""
    steps = len(labels) - 1
    return {label: rank / steps if steps else 1.0 for rank, label in enumerate(labels)}


def make_checklist(
    name: str, criteria: list[Any], formula: str, model: str, notes: ImportNotes
) -> ImportedJudge:
    """Make a checklist judge that asks about each criterion in a call of its own."""
    try:
        read_criteria(criteria)
    except ValueError as error:
        raise NotCarriedError(f"criteria: {error}") from None
    notes.differs.append(_OWN_WORDS)
    section: dict[str, Any] = {
        "kind": built_in_kind(ChecklistJudgeSettings),
        "formula": formula,
        "criteria_per_call": 1,
        "criteria": criteria,
    }
    if model:
        section["endpoint"] = {"model": model}
    return ImportedJudge(name, {}, section)
