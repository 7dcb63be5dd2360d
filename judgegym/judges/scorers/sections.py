"""Judges as sections of a file: `judge: {kind: rubric, endpoint: {model: …}}`.

A section has the kind, its settings under their flat names, `endpoint` with the model's settings,
and the parts of a composed judge under their own names: `{kind: cascade, cheap: {…}, strong: {…}}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judgegym.judges.config.composed import ComposedSettings
from judgegym.judges.config.judge import FLAT_NAMES
from judgegym.judges.core.judge import PartsDefinition
from judgegym.judges.core.naming import suggest_similar
from judgegym.judges.scorers.registry import JUDGES, find_definition, is_kind, kind_name

_ENDPOINT_PREFIX = "endpoint."


def flat_settings(section: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a section; a field that no endpoint has stays `endpoint.FIELD`.

    >>> flat_settings(
    ...     {"kind": "cascade", "endpoint": {"model": "m"}, "cheap": {"kind": "rule"}, "strong": {}}
    ... )
    {'judge': 'cascade', 'judge_model_name': 'm', 'cascade': {'cheap': {'kind': 'rule'}, 'strong': {}}}
    """
    parts = _find_parts(section)
    flat: dict[str, Any] = {}
    for name, value in section.items():
        if name == "kind":
            flat["judge"] = value
        elif name == "endpoint" and isinstance(value, Mapping):
            flat |= {
                FLAT_NAMES.get(field, f"{_ENDPOINT_PREFIX}{field}"): field_value
                for field, field_value in value.items()
            }
        elif parts is not None and name in parts.names:
            flat.setdefault(parts.setting, {})[name] = value
        else:
            flat[parts.setting if parts is not None and name == parts.key else name] = value
    return flat


def _find_parts(section: Mapping[str, Any]) -> PartsDefinition | None:
    """Return what a judge is made of.

    The kind may be omitted if the section has the parts of a jury, a cascade or steps.
    """
    kind = kind_name(section.get("kind", section.get("judge")))
    if kind is not None:
        if is_kind(kind):
            return find_definition(str(kind)).parts
        return None
    for judge in JUDGES.values():
        parts = judge.parts
        if parts is None or parts.default_kind is None:
            continue
        if parts.key in section or {*parts.names} & {*section}:
            return parts
    return None


def check_section(section: Mapping[str, Any], settings_type: type[ComposedSettings]) -> None:
    """Check that a section `judge` has only settings that its kind reads.

    Args:
        section: not yet validated.
        settings_type: the host's settings.

    Raises:
        ValueError: a setting is unknown, or belongs to another kind.
    """
    endpoint = section.get("endpoint", {})
    if not isinstance(endpoint, Mapping):
        raise ValueError(
            f"judge.endpoint: expected settings of the model, such as {{model: NAME}}, found "
            f"{endpoint!r}"
        )
    flat = flat_settings(section)
    known_fields = settings_type.select_class(flat).model_fields
    for name in (name for name in flat if name not in known_fields):
        field = name.removeprefix(_ENDPOINT_PREFIX)
        hint = suggest_similar(field, known_fields if field == name else FLAT_NAMES)
        readers = settings_type.readers(name)
        if readers:
            reader_list = " or ".join(readers)
            reason = f"nothing reads it without {reader_list}"
        else:
            reason = f"unknown setting{hint}"
        raise ValueError(f"judge.{name}: {reason}")
