"""Lists of criteria of other tools: harbor-rewardkit, autorubric, verifiers, HealthBench, RaR.

Each becomes a checklist judge, whose words around the criteria are its own. Sources: packages and
data sets as read in November 2026.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from judgegym.cli.judge_cards.imports import (
    FieldNames,
    ImportedJudge,
    ImportNotes,
    NotCarriedError,
)
from judgegym.judges.checklists.criteria import read_criteria
from judgegym.judges.checklists.prompt import ChecklistJudgeSettings
from judgegym.judges.scorers.registry import built_in_kind

_OWN_WORDS = "prompt: the checklist judge's own words around the criteria"
_AGENTS = ("claude-code", "codex", "jev")
_MEAN = ("weighted-mean", "weighted_mean")
_ALL = ("all-pass", "all_pass")
_MOST_LEVELS = 100
_JUDGE_FIELDS = ("judge", "model", "reference", "name", "description")
_SANDBOX_FIELDS = ("files", "timeout", "guard", "mode", "samples", "reasoning_effort")


def is_rewardkit(values: object) -> bool:
    """Return whether these are the values of a judge or a reward of harbor-rewardkit."""
    return isinstance(values, Mapping) and not values.keys().isdisjoint(("criterion", "reward"))


def import_rewardkit(
    values: Mapping[str, Any], fields: FieldNames, notes: ImportNotes
) -> ImportedJudge:
    """Import a judge's TOML file.

    Raises:
        NotCarriedError: it is the reward of several files, an agent, or has no criteria.
    """
    if "reward" in values:
        raise NotCarriedError(
            "reward: it combines other files; import each judge's file, and combine the cards with "
            "--reward CARD=WEIGHT,…"
        )
    table = values.get("judge")
    options = dict(table) if isinstance(table, Mapping) else dict(values)
    model = str(options.get("judge", ""))
    if model in _AGENTS:
        raise NotCarriedError(f"judge: {model} is an agent with tools, which no judge here has")
    for name in _SANDBOX_FIELDS:
        if name in options:
            notes.not_carried.append(f"{name}: {options[name]!r}")
    scoring = values.get("scoring") or {}
    aggregation = scoring.get("aggregation", _MEAN[0]) if isinstance(scoring, Mapping) else ""
    formulas = {**dict.fromkeys(_MEAN, "rar"), **dict.fromkeys(_ALL, "all")}
    if aggregation not in formulas:
        raise NotCarriedError(f"scoring.aggregation: {aggregation}: no formula equals it")
    entries = _require_list(values, "criterion")
    criteria = [_convert_rewardkit(entry, index, notes) for index, entry in enumerate(entries)]
    if formulas[aggregation] == "all" and any("options" in entry for entry in criteria):
        raise NotCarriedError("scoring.aggregation: all-pass is carried for binary criteria only")
    known_names = (*_JUDGE_FIELDS, *_SANDBOX_FIELDS, "criterion", "scoring")
    notes.check_names(options, known_names, "")
    return _make_judge(str(values.get("name", "")), criteria, formulas[aggregation], model, notes)


def _convert_rewardkit(entry: object, index: int, notes: ImportNotes) -> dict[str, Any]:
    path = f"criterion[{index}]"
    if not isinstance(entry, Mapping) or not isinstance(entry.get("description"), str):
        raise NotCarriedError(f"{path}: expected a table with a description")
    weight = entry.get("weight", 1.0)
    if not isinstance(weight, int | float) or weight < 0:
        raise NotCarriedError(f"{path}.weight: expected a number of at least 0, found {weight!r}")
    known_names = (
        *("description", "name", "type", "points", "min", "max", "levels"),
        *("negate", "optional", "weight"),
    )
    notes.check_names(entry, known_names, f"{path}.")
    if entry.get("optional"):
        notes.not_carried.append(f"{path}.optional: the criterion is judged as the others are")
    is_negated = bool(entry.get("negate"))
    criterion = {
        "text": entry["description"],
        "points": -float(weight) if is_negated else float(weight),
    }
    if isinstance(entry.get("name"), str):
        criterion["name"] = entry["name"]
    levels = _list_levels(entry, path)
    if levels:
        count = len(levels)
        criterion["options"] = {level: i / (count - 1) for i, level in enumerate(levels)}
    return criterion


def _list_levels(entry: Mapping[str, Any], path: str) -> list[str]:
    """Return the labels of a criterion from the worst to the best; empty for yes and no."""
    kind = entry.get("type", "binary")
    if kind == "binary":
        return []
    if kind == "rubric":
        return [str(level) for level in _require_list(entry, "levels", path)]
    low, high = _read_ends(entry, kind, path)
    has_steps = low == int(low) and high == int(high)
    if not has_steps or not 1 + (kind == "numeric") <= high - low < _MOST_LEVELS:
        raise NotCarriedError(
            f"{path}: {kind} from {low} to {high}: a criterion has at most {_MOST_LEVELS} levels, "
            "which are whole numbers"
        )
    return [str(level) for level in range(int(low), int(high) + 1)]


def _read_ends(entry: Mapping[str, Any], kind: str, path: str) -> tuple[float, float]:
    """Return the lowest and the highest score of a likert or numeric criterion."""
    if kind == "likert":
        ends = (1, entry.get("points", 5))
    elif kind == "numeric":
        ends = (entry.get("min", 0.0), entry.get("max", 1.0))
    else:
        raise NotCarriedError(
            f"{path}.type: expected binary, likert, numeric or rubric, found {kind!r}"
        )
    for end in ends:
        if isinstance(end, bool) or not isinstance(end, int | float) or not math.isfinite(end):
            raise NotCarriedError(f"{path}: {kind}: expected a number, found {end!r}")
    return float(ends[0]), float(ends[1])


def is_autorubric(values: object) -> bool:
    """Return whether these are the criteria of autorubric."""
    entries = values.get("criteria") if isinstance(values, Mapping) else values
    return _are_entries(entries, "requirement")


def import_autorubric(values: Any, fields: FieldNames, notes: ImportNotes) -> ImportedJudge:
    """Import a rubric: a list of criteria, or an object with such a list.

    Raises:
        NotCarriedError: there are no criteria.
    """
    entries: Any = values.get("criteria") if isinstance(values, Mapping) else values
    if isinstance(values, Mapping):
        notes.check_names(values, ("criteria", "name"), "")
    if not _are_entries(entries, "requirement"):
        raise NotCarriedError("criteria: expected objects with a requirement")
    criteria = [
        _convert_autorubric(entry, f"criteria[{index}]", notes)
        for index, entry in enumerate(entries)
    ]
    name = str(values.get("name", "")) if isinstance(values, Mapping) else ""
    return _make_judge(name, criteria, "weighted_mean", "", notes)


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
    for option in options:
        if not isinstance(option, Mapping) or "label" not in option or "value" not in option:
            raise NotCarriedError(f"{path}.options: expected objects with label and value")
        if option.get("na"):
            raise NotCarriedError(f"{path}.options: {option['label']!r}: a label for N/A")
    if options:
        criterion["options"] = {str(option["label"]): option["value"] for option in options}
    return criterion


def is_verifiers_rubric(values: object) -> bool:
    """Return whether these are the settings of a plugged judge of verifiers."""
    return isinstance(values, Mapping) and values.get("id") in ("rubric", "reference", "decision")


def import_verifiers_rubric(
    values: Mapping[str, Any], fields: FieldNames, notes: ImportNotes
) -> ImportedJudge:
    """Import the settings of the plugged judge `rubric`.

    Raises:
        NotCarriedError: it is another plugged judge, whose prompt is in its package.
    """
    if values["id"] != "rubric":
        raise NotCarriedError(f"id: {values['id']}: its prompt is in its package, not in this file")
    for name in ("base_url", "sampling", "prompt_file"):
        if name in values:
            notes.not_carried.append(f"{name}: give it to the command")
    notes.check_names(
        values, ("id", "criteria", "model", "base_url", "sampling", "prompt_file"), ""
    )
    criteria = list(_require_list(values, "criteria"))
    return _make_judge("rubric", criteria, "weighted_mean", str(values.get("model", "")), notes)


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
    if not isinstance(values, list):
        criteria = list(values[_find_row_criteria(values) or ""])
        return _make_judge("", criteria, formula, "", notes)
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


def _make_judge(
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
