"""Judges of harbor-rewardkit: a judge's TOML file, and the `reward.toml` of a directory.

A judge's file becomes a checklist judge, whose words around the criteria are its own. A
`reward.toml` becomes a composite judge of the judges' files beside it; those of a directory below
are a composite of their own. Source: the package 0.2.3, read in November 2026.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from judgegym.cli.judge_cards.criteria import make_checklist, rank_labels
from judgegym.cli.judge_cards.imports import (
    FieldNames,
    ImportedJudge,
    ImportNotes,
    NotCarriedError,
    require_object,
)
from judgegym.judges.core.calls import MAX_VOTES
from judgegym.judges.parts.composite import CompositeJudgeSettings
from judgegym.judges.scorers.registry import built_in_kind

INPUTS = "inputs"
"""The name under which `read_values` puts the files and directories beside a `reward.toml`."""
_AGENTS = ("claude-code", "codex", "jev")
_MOST_LEVELS = 100
_LISTED = ("files", "atif-trajectory", "atif_trajectory", "reference", "timeout", "mode")
"""Settings of a judge that are listed with their values; a sandbox has them."""
_CRITERION_FIELDS = (
    *("description", "name", "id", "type", "points", "min", "max", "levels", "weight"),
    *("negate", "optional", "annotations"),
)


def is_rewardkit(values: object) -> bool:
    """Return whether these are the values of a judge or a reward of harbor-rewardkit."""
    names = ("criterion", "reward", INPUTS)
    return isinstance(values, Mapping) and not values.keys().isdisjoint(names)


def import_rewardkit(
    values: Mapping[str, Any], fields: FieldNames, notes: ImportNotes
) -> ImportedJudge:
    """Import a judge's TOML file, or a `reward.toml` with the files beside it.

    Raises:
        NotCarriedError: it is an agent, has no criteria, or an aggregation without an equal.
    """
    require_object(values)
    if "criterion" in values or "judge" in values:
        return _import_judge(values, notes)
    return _import_reward(values, notes)


def _import_reward(values: Mapping[str, Any], notes: ImportNotes) -> ImportedJudge:
    """Make a composite judge of the judges' files in a directory."""
    specs = values.get("reward") or [{}]
    if not isinstance(specs, list) or not all(isinstance(spec, Mapping) for spec in specs):
        raise NotCarriedError("reward: expected tables [[reward]]")
    if len(specs) > 1:
        names = ", ".join(str(spec.get("name")) for spec in specs)
        raise NotCarriedError(f"reward: {names}: several rewards; a card has one")
    if values.get("scoring"):
        raise NotCarriedError("scoring: criteria in Python need a sandbox")
    spec = specs[0]
    notes.check_names(spec, ("name", "aggregation", "threshold", "weights"), "reward.")
    inputs = values.get(INPUTS) or {}
    if not inputs:
        raise NotCarriedError("reward: there are no judges' files beside it")
    weights = spec.get("weights") or {}
    require_object(inputs, INPUTS)
    require_object(weights, "reward.weights")
    unknown = [name for name in weights if name not in inputs]
    if unknown:
        raise NotCarriedError(f"reward.weights: {unknown[0]}: no file or directory of this name")
    parts: dict[str, Any] = {}
    for name, content in inputs.items():
        part_notes = ImportNotes()
        try:
            part = import_rewardkit(content, {}, part_notes).part
        except NotCarriedError as error:
            raise NotCarriedError(f"{name}.{error}") from None
        notes.add(part_notes, f"{name}.")
        table = content.get("judge")
        usual = table.get("weight", 1.0) if isinstance(table, Mapping) else 1.0
        parts[name] = {**part, "weight": _read_weight(weights.get(name, usual), f"weights.{name}")}
    aggregation = _read_aggregation(spec)
    total = math.fsum(part["weight"] for part in parts.values())
    is_sum = aggregation == "weighted-sum" and math.isclose(total, 1.0, rel_tol=1e-9)
    if aggregation != "weighted-mean" and not is_sum:
        raise NotCarriedError(
            f"reward.aggregation: {aggregation}: a composite judge has the weighted mean of judges"
        )
    notes.differs.append("score: not rounded; rewardkit rounds to 4 decimals")
    section = {
        "kind": built_in_kind(CompositeJudgeSettings),
        "combine": "weighted_sum",
        "reward": parts,
    }
    return ImportedJudge(str(spec.get("name", "")), {}, section)


def _import_judge(values: Mapping[str, Any], notes: ImportNotes) -> ImportedJudge:
    """Make a checklist judge of a judge's file."""
    notes.check_names(values, ("judge", "criterion", "scoring"), "")
    table = values.get("judge") or {}
    if not isinstance(table, Mapping):
        raise NotCarriedError("judge: expected a table [judge]")
    model = str(table.get("judge", ""))
    if model in _AGENTS:
        raise NotCarriedError(f"judge: {model} is an agent with tools, which no judge here has")
    for name in ("prompt_template", "guard"):
        if table.get(name, "off") != "off":
            raise NotCarriedError(f"judge.{name}: the checklist judge has no equal")
    for name in _LISTED:
        if name in table:
            notes.not_carried.append(f"judge.{name}: {table[name]!r}")
    notes.check_names(
        table,
        ("judge", "samples", "reasoning_effort", "weight", "prompt_template", "guard", *_LISTED),
        "judge.",
    )
    scoring = values.get("scoring") or {}
    if not isinstance(scoring, Mapping):
        raise NotCarriedError("scoring: expected a table [scoring]")
    aggregation = _read_aggregation(scoring)
    entries = values.get("criterion")
    if not isinstance(entries, list) or not entries:
        raise NotCarriedError("criterion: expected tables [[criterion]]")
    criteria = [
        _convert_criterion(entry, f"criterion[{index}]", aggregation, notes)
        for index, entry in enumerate(entries)
    ]
    total = math.fsum(abs(criterion["points"]) for criterion in criteria)
    formulas = {"weighted-mean": "rar", "all-pass": "all", "required-pass": "all"}
    if aggregation == "weighted-sum" and math.isclose(total, 1.0, rel_tol=1e-9):
        formulas[aggregation] = "rar"
    if aggregation not in formulas:
        raise NotCarriedError(f"scoring.aggregation: {aggregation}: no formula equals it")
    judge = make_checklist("", criteria, formulas[aggregation], model, notes)
    section = {**judge.judge, **_read_votes(table, notes)}
    if "reasoning_effort" in table:
        endpoint = {**section.get("endpoint", {})}
        endpoint["extra_body"] = {"reasoning_effort": table["reasoning_effort"]}
        section["endpoint"] = endpoint
    return ImportedJudge("", {}, section)


def _read_aggregation(values: Mapping[str, Any]) -> str:
    return str(values.get("aggregation", "weighted-mean")).replace("_", "-")


def _read_weight(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise NotCarriedError(f"{path}: expected a number of at least 0, found {value!r}")
    return float(value)


def _read_votes(table: Mapping[str, Any], notes: ImportNotes) -> Mapping[str, int]:
    """Return the votes of a judge with several samples; both take the middle one."""
    samples = table.get("samples", 1)
    if samples == 1:
        return {}
    if isinstance(samples, int) and samples % 2 and samples <= MAX_VOTES:
        return {"strictness": samples}
    notes.not_carried.append(f"judge.samples: {samples!r}: votes are odd, up to {MAX_VOTES}")
    return {}


def _convert_criterion(
    entry: object, path: str, aggregation: str, notes: ImportNotes
) -> dict[str, Any]:
    """Return a criterion of a checklist.

    With all-pass each criterion counts, whatever its weight; with required-pass those that are not
    optional.
    """
    if not isinstance(entry, Mapping) or not isinstance(entry.get("description"), str):
        raise NotCarriedError(f"{path}: expected a table with a description")
    notes.check_names(entry, _CRITERION_FIELDS, f"{path}.")
    annotations = entry.get("annotations") or {}
    is_negated = entry.get("negate", "negative" in _annotation(annotations, "type"))
    is_optional = entry.get("optional", "optional" in _annotation(annotations, "importance"))
    for name, value in (("negate", is_negated), ("optional", is_optional)):
        if not isinstance(value, bool):
            raise NotCarriedError(f"{path}.{name}: expected true or false, found {value!r}")
    points = _read_weight(entry.get("weight", 1.0), f"{path}.weight")
    if aggregation == "all-pass":
        points = 1.0
    elif aggregation == "required-pass":
        points = 0.0 if is_optional else 1.0
    criterion: dict[str, Any] = {"text": entry["description"]}
    criterion["points"] = -points if is_negated else points
    if isinstance(entry.get("name"), str):
        criterion["name"] = entry["name"]
    levels = _list_levels(entry, path, notes)
    if levels:
        criterion["options"] = rank_labels(levels)
    return criterion


def _annotation(annotations: object, name: str) -> str:
    if not isinstance(annotations, Mapping):
        return ""
    return str(annotations.get(name, "")).lower()


def _list_levels(entry: Mapping[str, Any], path: str, notes: ImportNotes) -> list[str]:
    """Return the labels of a criterion from the worst to the best; empty for yes and no."""
    kind = entry.get("type", "binary")
    if kind == "binary":
        return []
    if kind == "rubric":
        levels = entry.get("levels")
        if not isinstance(levels, list) or not levels:
            raise NotCarriedError(f"{path}.levels: expected a list that is not empty")
        if len({*map(str, levels)}) < len(levels):
            raise NotCarriedError(f"{path}.levels: expected different texts, found {levels}")
        notes.differs.append(f"{path}: the reply is a level's text, not its number")
        return [str(level) for level in levels]
    low, high = _read_ends(entry, str(kind), path)
    has_steps = low == int(low) and high == int(high)
    if not has_steps or not 1 + (kind == "numeric") <= high - low < _MOST_LEVELS:
        raise NotCarriedError(
            f"{path}: {kind} from {low:g} to {high:g}: a criterion has at most {_MOST_LEVELS} "
            "levels, which are whole numbers"
        )
    notes.not_carried.append(f"{path}: a number that is no level is no verdict, asked again")
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
