"""Drop removed settings from sources, and explain why those with another value are refused.

`removed.py` has the table. Every source passes here: command line, environment variables, YAML
files and presets, keyword arguments, and the `config.yaml` of a resumed run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from judgegym.judges.config.fields import find_classes, find_section
from judgegym.judges.config.removed import (
    RemovedSetting,
    find_removed_at,
    find_removed_from_judges,
    find_removed_setting,
)
from judgegym.llm import wire

COMMAND_LINE = "command line"
_SWITCHES = ("true", "false", "1", "0")
_HOLD_JUDGES = frozenset({"reward", "judges", "cascade", "steps_judge", "gold_judge", "mounts"})
"""Settings whose objects hold settings of judges."""


@dataclass(frozen=True, slots=True)
class RemovedValue:
    """A value that a source gives to a removed setting.

    Attributes:
        path: its dotted name.
        value: the value, with the source's type.
        setting: the setting.
        origin: the source, for messages.
    """

    path: str
    value: object
    setting: RemovedSetting
    origin: str = ""

    def refusal(self, settings: object = None, prefix: str = "--") -> str | None:
        """Explain why it is refused, given the valid settings; `None` if it is dropped."""
        setting, section = self.setting, settings
        if setting.is_constant(self.value):
            return None
        for name in self.path.split(".")[:-1]:
            section = getattr(section, name, None)
        if section is not None and self._is_in_force(section, settings):
            return None
        if setting.constant is None:
            constant = "unset"
        else:
            constant = wire.dumps(setting.constant).decode()
        if setting.is_in_force is None:
            state = f"was removed, and is always {constant}"
        else:
            state = "is part of another one now"
        origin = f" ({self.origin})" if self.origin else ""
        return f"{prefix}{self.path}{origin}: this setting {state}; {setting.advice}"

    def _is_in_force(self, section: object, settings: object) -> bool:
        try:
            return self.setting.is_in_force is not None and self.setting.is_in_force(
                section, settings, self.value
            )
        except (
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ):  # unrelated settings, or a value of the wrong type
            return False


def take_removed(
    model: type[BaseModel], values: Mapping[Any, Any], origin: str = "", prefix: str = ""
) -> tuple[dict[Any, Any], list[RemovedValue]]:
    """Split a source's values into those without removed settings, and the removed ones.

    Args:
        model: the settings.
        values: by name, those of sections as objects.
        origin: the source, for messages.
        prefix: the dotted names of the sections around them.
    """
    remaining: dict[Any, Any] = {}
    taken: list[RemovedValue] = []
    for name, value in values.items():
        path = f"{prefix}{name}"
        setting = find_removed_setting(model, name)
        if setting is not None:
            taken.append(RemovedValue(path, value, setting, origin))
            continue
        inner = find_section(model, name) if isinstance(name, str) else None
        if inner is not None and isinstance(value, Mapping):
            value, nested = take_removed(inner, value, origin, f"{path}.")
        else:
            value, nested = _take_nested(
                inner or _find_item_class(model, name), value, origin, path
            )
        remaining[name] = value
        taken += nested
    return remaining, taken


def _find_item_class(model: type[BaseModel], name: object) -> type[BaseModel] | None:
    """Return the class of the objects in a setting; `BaseModel` for judge settings."""
    field = model.model_fields.get(str(name))
    classes = () if field is None else find_classes(field.annotation)
    models = [model for model in classes if issubclass(model, BaseModel)]
    if len(models) == 1:
        return models[0]
    if name in _HOLD_JUDGES:
        return BaseModel
    return None


def _take_nested(
    model: type[BaseModel] | None, value: Any, origin: str, path: str
) -> tuple[Any, list[RemovedValue]]:
    """Do the same for a list or an object of objects, also as the JSON text of a flag."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{") and model is not None:
        remaining, taken = _take_nested(model, wire.loads_or_none(value), origin, path)
        return (remaining if taken else value), taken
    if model is None or not isinstance(value, list | dict):
        return value, []
    taken = list[RemovedValue]()
    items: list[tuple[Any, Any]] = (
        [*enumerate(value)] if isinstance(value, list) else [*value.items()]
    )
    remaining_items = []
    for name, item in items:
        if model is BaseModel and isinstance(value, dict):
            setting = find_removed_from_judges(name)
        else:
            setting = None
        if setting is not None:
            taken.append(RemovedValue(f"{path}.{name}", item, setting, origin))
            continue
        if model is BaseModel or not isinstance(item, dict):
            item, nested = _take_nested(model, item, origin, f"{path}.{name}")
        else:
            item, nested = take_removed(model, item, origin, f"{path}.{name}.")
        remaining_items.append((name, item))
        taken += nested
    if isinstance(value, list):
        return [item for _, item in remaining_items], taken
    return dict(remaining_items), taken


def refusals(
    taken: Sequence[RemovedValue], settings: object = None, prefix: str = "--"
) -> list[str]:
    """Explain the refused removed settings, a line for each; empty if all are dropped.

    Args:
        taken: the removed settings of a source.
        settings: the valid settings of the command.
        prefix: the prefix of a setting's name in messages.
    """
    return [line for value in taken if (line := value.refusal(settings, prefix)) is not None]


def find_unknown_settings(
    model: type[BaseModel], values: Mapping[Any, Any], prefix: str = ""
) -> Iterator[str]:
    """Yield the dotted names in a settings file that no setting has."""
    for name, value in values.items():
        field = model.model_fields.get(str(name))
        section = find_section(model, str(name))
        if field is None:
            yield f"{prefix}{name}"
        elif section is not None and isinstance(value, Mapping):
            yield from find_unknown_settings(section, value, f"{prefix}{name}.")


def take_removed_flags(
    model: type[BaseModel] | str, words: Sequence[str]
) -> tuple[list[str], list[RemovedValue]]:
    """Split a command line into words without removed flags, and the removed values.

    Args:
        model: the settings, or the name of a command that has a small parser.
        words: `--name=value`, `--name value`, or, for booleans, `--name` and `--no-name`.
    """
    remaining: list[str] = []
    taken: list[RemovedValue] = []
    following = list(reversed(words))
    while following:
        word = following.pop()
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--")
        positive = name.removeprefix("no-")
        setting = None
        if word.startswith("--"):
            setting = _find_removed_flag(model, name)
        if positive != name and word.startswith("--"):
            switch = _find_removed_flag(model, positive)
        else:
            switch = None
        if setting is not None:
            text = value if equals else _take_flag_value(setting, following)
            taken.append(RemovedValue(name, text, setting, COMMAND_LINE))
        elif switch is not None and isinstance(switch.constant, bool):
            taken.append(RemovedValue(positive, "false", switch, COMMAND_LINE))
        else:
            remaining.append(word)
    return remaining, taken


def _take_flag_value(setting: RemovedSetting, following: list[str]) -> str:
    """Take a flag's value from the end of `following`; `true` if the next word is no value."""
    is_given = bool(following) and not following[-1].startswith("--")
    if isinstance(setting.constant, bool):
        is_given = is_given and following[-1].lower() in _SWITCHES
    if is_given:
        return following.pop()
    return "true"


def _find_removed_flag(model: type[BaseModel] | str, name: str) -> RemovedSetting | None:
    if isinstance(model, str):
        return find_removed_setting(model, name)
    return find_removed_at(model, name)


def take_removed_variables(
    model: type[BaseModel], variables: Mapping[str, str], prefix: str
) -> tuple[dict[str, str], list[RemovedValue]]:
    """Split environment variables into those without removed settings, and the removed values."""
    remaining: dict[str, str] = {}
    taken: list[RemovedValue] = []
    for variable, value in variables.items():
        path = variable.lower().removeprefix(prefix.lower()).replace("__", ".")
        if variable.lower().startswith(prefix.lower()):
            setting = find_removed_at(model, path)
        else:
            setting = None
        if setting is None:
            remaining[variable] = value
        else:
            variable_name = variable.upper()
            origin = f"environment variable {variable_name}"
            taken.append(RemovedValue(path, value.rstrip("\r\n"), setting, origin))
    return remaining, taken


def locate_in_file(taken: Sequence[RemovedValue], path: Path) -> list[RemovedValue]:
    """Return the values with their YAML file and line as origin."""
    root = yaml.compose(path.read_bytes(), yaml.SafeLoader) if taken else None
    return [replace(value, origin=f"{path}{find_line(root, value.path)}") for value in taken]


def find_line(root: yaml.Node | None, path: str) -> str:
    """Return `, line 7` for a setting in a YAML document; empty if it is not there."""
    sections = (
        [*path.split(".")],
        ["env", *path.split(".")],
    )  # an environment's file, read without sections
    return next(
        (
            f", line {line}"
            for line in (_find_line_number(root, names) for names in sections)
            if line
        ),
        "",
    )


def _find_line_number(node: yaml.Node | None, names: Sequence[str]) -> int:
    """Return the line of the value at these names; 0 if it is not there."""
    line = 0
    for name in names:
        if isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
            node = node.value[int(name)]
            line = node.start_mark.line + 1
            continue
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        entry = next(
            ((key, value) for key, value in pairs if getattr(key, "value", None) == name), None
        )
        if entry is None:
            return 0
        line, node = entry[0].start_mark.line + 1, entry[1]
    return line
