"""Settings that were removed, or merged into another one: none vanishes without a word.

A removed setting is dropped where it has the value that is now constant, and refused by name where it has another one:
on a command line, in an environment variable, a preset or a YAML file, in keyword arguments, and in the `config.yaml`
of a run that is resumed.

To remove a setting, delete its field, give its default a name in the module that uses it, and add one line to
`REMOVED`: the class that declared it, its name, the value that is now constant, and what to do instead:

    RemovedSetting("TrainerSettings", "eval_limit_ratio", 0.5, "leave it out: LIMIT_TRAIN keeps half of the workers"),

It then holds wherever that class or a subclass stands: under `env.` and `openai.`, without a section, in a list of
servers. A setting that a part of a reward, a member, a mount or a gold judge may have, too, goes to
`REMOVED_FROM_JUDGES`. A command with a small parser (`OneLineParser`) stands there by its name:
`RemovedSetting("label", "format", "jsonl", …)`. Of a setting that is merged into another one, `is_in_force` says
whether the new setting says the same as the old value: it has the section of the valid settings, all of them, and the
value (`equals` makes it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from judgegym.judges.config.fields import classes_in, section_of
from judgegym.llm import wire
from judgegym.llm.wire import JSON

IsInForce: TypeAlias = Callable[[Any, Any, Any], bool]
"""Whether other settings say the same as a value: of its section, all settings, and the value."""


@dataclass(frozen=True, slots=True)
class RemovedSetting:
    """One removed setting.

    Attributes:
        where: the class that declared it, or the command whose small parser had it.
        name: its name, without a section.
        constant: the value that it now always has.
        advice: what to do instead of setting it; the end of a sentence.
        also: further values that mean the same.
        is_in_force: whether another setting says the same as an old value; `None` if there is none.
    """

    where: str
    name: str
    constant: JSON
    advice: str
    also: tuple[JSON, ...] = ()
    is_in_force: IsInForce | None = None

    def is_constant(self, value: object) -> bool:
        """Whether a value, perhaps still the text of a flag, is the constant."""
        return any(_is_equal(value, one) for one in (self.constant, *self.also))


def equals(name: str, key: str | None = None) -> IsInForce:
    """Whether the setting of this name, beside a removed one, or a value in the object that it is, has its value."""

    def is_in_force(section: Any, settings: Any, value: Any) -> bool:
        there = getattr(section, name)
        return _is_equal(value, there if key is None else there[key])

    return is_in_force


def _price(where: str, name: str, kind: str) -> RemovedSetting:
    """A price that is one of the names in a setting of all prices."""
    return RemovedSetting(
        where, f"{name}_{kind}", None, f"give {name} input=…,output=…", is_in_force=equals(name, kind)
    )


_RUNS = ("RunSettings", "RowsRunSettings")
"""The classes of the runs of an environment, and of those that judge the rows of a data set."""
_PRICES = ("input", "output", "cached_input")

REMOVED: Sequence[RemovedSetting] = (
    RemovedSetting(
        "MonitorSettings", "alarm_webhook_env", None, "alarms are in log and page, at Weights & Biases, in /metrics"
    ),
    RemovedSetting(
        "TrainerSettings", "num_rollouts_to_keep", 32, "leave it out: the table at Weights & Biases has 32 groups"
    ),
    RemovedSetting(
        "TrainerSettings", "num_rollouts_per_group_for_logging", 1, "leave it out: it shows one of each group"
    ),
    RemovedSetting(
        "TrainerSettings", "min_items_sent_before_logging", 2, "leave it out: a step with two groups is logged"
    ),
    RemovedSetting(
        *("RewardServerSettings", "queue_deadline", 100.0, "--deadline also bounds the wait for a place at the judge"),
        is_in_force=equals("deadline"),
    ),
    RemovedSetting(
        *("RewardServerSettings", "request_deadline", None, "--deadline bounds a request in all"),
        is_in_force=equals("deadline"),
    ),
    RemovedSetting(
        *("RewardServerSettings", "max_connections", 4096, "more are open where --max_pending is higher"),
        is_in_force=equals("max_pending"),
    ),
    RemovedSetting(
        "RewardServerSettings", "max_aggregate_mb", 256.0, "send fewer rollouts to /aggregate_metrics at once"
    ),
    RemovedSetting("RewardServerSettings", "header_timeout", 10.0, "leave it out"),
    RemovedSetting("RewardServerSettings", "body_timeout", 30.0, "leave it out"),
    RemovedSetting("AttackSettings", "false_discoveries", 0.05, "attack.json has the adjusted p-value of each attack"),
    RemovedSetting("AttackSettings", "worst_rows", 5, "the page and attack.json show five rows of each attack"),
    RemovedSetting("label", "export", None, "labels are JSON lines, in the file that --out names; --import reads them"),
    RemovedSetting(
        "TrainerSettings", "row_flat_after", 2, "leave it out: two groups with equal rewards make a row flat"
    ),
    RemovedSetting(
        "TrainerSettings", "row_flat_share", 0.25, "leave it out: a flat row is drawn in a quarter of the epochs"
    ),
    RemovedSetting("TrainerSettings", "eval_limit_ratio", 0.5, "leave it out: LIMIT_TRAIN keeps half of the workers"),
    RemovedSetting(
        "RolloutSettings", "max_num_workers_per_node", 8, "set max_num_workers: this times the number of servers"
    ),
    RemovedSetting("MonitorSettings", "gold_queue", 256, "leave it out: 256 rollouts wait for the gold judge"),
    RemovedSetting("MonitorSettings", "gold_ranked_share", 0.25, "leave it out, or set gold_share"),
    RemovedSetting("PolicySettings", "n_kwarg_is_ignored", False, "leave it out: the first response tells"),
    RemovedSetting(
        "UserSettings",
        "user_finish_reasons",
        [],
        "give openai.finish_reasons, which holds for the simulated user, too",
        is_in_force=lambda _, settings, value: set(value) <= set(settings.openai.finish_reasons),
    ),
    *(_price("PolicySettings", "price", kind) for kind in _PRICES),
    *(_price("UserSettings", "user_price", kind) for kind in _PRICES),
    RemovedSetting("UserSettings", "user_timeout", 600.0, "leave it out: an attempt has ten minutes"),
    *(RemovedSetting(where, "disk_full_deadline", 600.0, "leave it out: a run waits ten minutes") for where in _RUNS),
    RemovedSetting(
        "RunSettings",
        "wandb_optional",
        False,
        "give use_wandb=optional",
        is_in_force=lambda section, _, value: section.use_wandb == "optional",
    ),
    RemovedSetting(
        "EnvSettings",
        "plan_tokens",
        500,
        "give the number to --plan",
        is_in_force=equals("plan"),
    ),
    RemovedSetting(
        "AlarmSettings",
        "alarm_pause_s",
        None,
        "give on_alarm=pause:SECONDS",
        is_in_force=lambda section, _, value: section.on_alarm == f"pause:{float(value):g}",
    ),
    *(
        RemovedSetting(
            "MonitorSettings",
            f"gold_{name}",
            None,
            f"give {name} in the object gold_judge",
            is_in_force=equals("gold_judge", name),
        )
        for name in ("budget_calls", "budget_usd")
    ),
    RemovedSetting(
        "SourcedSettings",
        "latency_ms",
        0.0,
        'give faults {"latency_ms": …}',
        is_in_force=equals("faults", "latency_ms"),
    ),
    RemovedSetting(
        "MonitorSettings",
        "limits_alarm",
        False,
        'give monitor_limits {"alarm": true, …}',
        is_in_force=lambda section, _, value: section.limits_alarm,
    ),
)
"""Settings of commands, of environments and of the policy."""

REMOVED_FROM_JUDGES: Sequence[RemovedSetting] = ()
"""Settings of judges, which may also stand in a part, a member, a mount or a gold judge."""

COMMAND_LINE = "command line"
_SWITCHES = ("true", "false", "1", "0")
_HOLD_JUDGES = frozenset({"reward", "judges", "cascade", "steps_judge", "gold_judge", "mounts"})
"""Settings whose objects hold the settings of a judge."""


@dataclass(frozen=True, slots=True)
class RemovedValue:
    """A removed setting to which a source gives a value.

    Attributes:
        path: its dotted name.
        value: the value, of the type that the source has.
        setting: the setting.
        origin: the source, for messages.
    """

    path: str
    value: object
    setting: RemovedSetting
    origin: str = ""

    def refusal(self, settings: object = None, prefix: str = "--") -> str | None:
        """Why it is refused, given the valid settings of the command; `None` if it is dropped."""
        setting, section = self.setting, settings
        if setting.is_constant(self.value):
            return None
        for name in self.path.split(".")[:-1]:
            section = getattr(section, name, None)
        if section is not None and self._is_in_force(section, settings):
            return None
        constant = "unset" if setting.constant is None else wire.dumps(setting.constant).decode()
        state = (
            f"was removed, and is always {constant}" if setting.is_in_force is None else "is part of another one now"
        )
        origin = f" ({self.origin})" if self.origin else ""
        return f"{prefix}{self.path}{origin}: this setting {state}; {setting.advice}"

    def _is_in_force(self, section: object, settings: object) -> bool:
        try:
            return self.setting.is_in_force is not None and self.setting.is_in_force(section, settings, self.value)
        except (AttributeError, LookupError, TypeError, ValueError):  # other settings, or a value that it never had
            return False


def removed_setting(model: type[BaseModel] | str, name: object) -> RemovedSetting | None:
    """The removed setting of this name that a class of settings, or a command, had; `None` if there is none."""
    if isinstance(model, str):
        classes = {model}
    elif name in model.model_fields:
        return None
    else:
        classes = {base.__name__ for base in model.__mro__}
    listed = (*REMOVED, *REMOVED_FROM_JUDGES)
    return next((each for each in listed if each.name == name and each.where in classes), None)


def removed_at(model: type[BaseModel], path: str) -> RemovedSetting | None:
    """The removed setting at a dotted path."""
    first, _, rest = path.partition(".")
    section = section_of(model, first)
    if rest:
        return None if section is None else removed_at(section, rest)
    return removed_setting(model, first)


def take_removed(
    model: type[BaseModel], values: Mapping[Any, Any], origin: str = "", prefix: str = ""
) -> tuple[dict[Any, Any], list[RemovedValue]]:
    """The values of a source without removed settings, and those.

    Args:
        model: the settings.
        values: by name, those of sections as objects.
        origin: the source, for messages.
        prefix: the dotted names of the sections around them.
    """
    kept: dict[Any, Any] = {}
    taken: list[RemovedValue] = []
    for name, value in values.items():
        path = f"{prefix}{name}"
        setting = removed_setting(model, name)
        if setting is not None:
            taken.append(RemovedValue(path, value, setting, origin))
            continue
        inner = section_of(model, name) if isinstance(name, str) else None
        if inner is not None and isinstance(value, Mapping):
            value, found = take_removed(inner, value, origin, f"{path}.")
        else:
            value, found = _take_nested(inner or _listed(model, name), value, origin, path)
        kept[name] = value
        taken += found
    return kept, taken


def _listed(model: type[BaseModel], name: object) -> type[BaseModel] | None:
    """The class of the objects in a setting; `BaseModel` itself for objects that hold the settings of a judge."""
    field = model.model_fields.get(str(name))
    found = [] if field is None else [each for each in classes_in(field.annotation) if issubclass(each, BaseModel)]
    if len(found) == 1:
        return found[0]
    return BaseModel if name in _HOLD_JUDGES else None


def _take_nested(model: type[BaseModel] | None, value: Any, origin: str, path: str) -> tuple[Any, list[RemovedValue]]:
    """The same for a list or an object of objects, also as the JSON text of a flag."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{") and model is not None:
        read = wire.as_json(value)
        without, taken = _take_nested(model, read, origin, path)
        return (without if taken else value), taken
    if model is None or not isinstance(value, list | dict):
        return value, []
    taken = list[RemovedValue]()
    items: list[tuple[Any, Any]] = [*enumerate(value)] if isinstance(value, list) else [*value.items()]
    kept = []
    for name, item in items:
        setting = _removed_from_judges(name) if model is BaseModel and isinstance(value, dict) else None
        if setting is not None:
            taken.append(RemovedValue(f"{path}.{name}", item, setting, origin))
            continue
        if model is BaseModel or not isinstance(item, dict):
            item, found = _take_nested(model, item, origin, f"{path}.{name}")
        else:
            item, found = take_removed(model, item, origin, f"{path}.{name}.")
        kept.append((name, item))
        taken += found
    return [item for _, item in kept] if isinstance(value, list) else dict(kept), taken


def _removed_from_judges(name: object) -> RemovedSetting | None:
    return next((each for each in REMOVED_FROM_JUDGES if each.name == name), None)


def refusals(taken: Sequence[RemovedValue], settings: object = None, prefix: str = "--") -> list[str]:
    """Why removed settings are refused, a line for each; empty if all are dropped.

    Args:
        taken: the removed settings of a source.
        settings: the valid settings of the command.
        prefix: what stands before a setting's name in messages.
    """
    return [line for value in taken if (line := value.refusal(settings, prefix)) is not None]


def unknown_settings(model: type[BaseModel], values: Mapping[Any, Any], prefix: str = "") -> Iterator[str]:
    """The dotted names in a file of settings that no setting has."""
    for name, value in values.items():
        field, section = model.model_fields.get(str(name)), section_of(model, str(name))
        if field is None:
            yield f"{prefix}{name}"
        elif section is not None and isinstance(value, Mapping):
            yield from unknown_settings(section, value, f"{prefix}{name}.")


def take_removed_flags(model: type[BaseModel] | str, words: Sequence[str]) -> tuple[list[str], list[RemovedValue]]:
    """The words of a command line without the flags of removed settings, and those.

    Args:
        model: the settings, or the name of a command that has a small parser.
        words: `--name=value`, `--name value`, or, for what is true or false, `--name` and `--no-name`.
    """
    kept: list[str] = []
    taken: list[RemovedValue] = []
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--")
        positive = name.removeprefix("no-")
        setting = _removed_flag(model, name) if word.startswith("--") else None
        switch = _removed_flag(model, positive) if positive != name and word.startswith("--") else None
        if setting is not None:
            text = value if equals else _flag_value(setting, rest)
            taken.append(RemovedValue(name, text, setting, COMMAND_LINE))
        elif switch is not None and isinstance(switch.constant, bool):
            taken.append(RemovedValue(positive, "false", switch, COMMAND_LINE))
        else:
            kept.append(word)
    return kept, taken


def _flag_value(setting: RemovedSetting, rest: list[str]) -> str:
    """The value of a flag in the word behind it, which it takes from the rest (the next word is the last one)."""
    is_given = bool(rest) and not rest[-1].startswith("--")
    if isinstance(setting.constant, bool):
        is_given = is_given and rest[-1].lower() in _SWITCHES
    return rest.pop() if is_given else "true"


def _removed_flag(model: type[BaseModel] | str, name: str) -> RemovedSetting | None:
    return removed_setting(model, name) if isinstance(model, str) else removed_at(model, name)


def take_removed_variables(
    model: type[BaseModel], variables: Mapping[str, str], prefix: str
) -> tuple[dict[str, str], list[RemovedValue]]:
    """The environment variables without those of removed settings, and those."""
    kept: dict[str, str] = {}
    taken: list[RemovedValue] = []
    for variable, value in variables.items():
        path = variable.lower().removeprefix(prefix.lower()).replace("__", ".")
        setting = removed_at(model, path) if variable.lower().startswith(prefix.lower()) else None
        if setting is None:
            kept[variable] = value
        else:
            origin = f"environment variable {variable.upper()}"
            taken.append(RemovedValue(path, value.rstrip("\r\n"), setting, origin))
    return kept, taken


def in_file(taken: Sequence[RemovedValue], path: Path) -> list[RemovedValue]:
    """The same with the YAML file and the line of each as its origin."""
    root = yaml.compose(path.read_bytes(), yaml.SafeLoader) if taken else None
    return [replace(each, origin=f"{path}{line_of(root, each.path)}") for each in taken]


def line_of(root: yaml.Node | None, path: str) -> str:
    """`, line 7` for a setting in a YAML document, by its dotted name; empty if it is not there."""
    sections = ([*path.split(".")], ["env", *path.split(".")])  # the file of an environment, read without sections
    return next((f", line {line}" for line in (_line(root, names) for names in sections) if line), "")


def _line(node: yaml.Node | None, names: Sequence[str]) -> int:
    """The line of the value at these names; 0 if it is not there."""
    line = 0
    for name in names:
        if isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
            node = node.value[int(name)]
            line = node.start_mark.line + 1
            continue
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        found = next(((key, value) for key, value in pairs if getattr(key, "value", None) == name), None)
        if found is None:
            return 0
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def _is_equal(value: object, constant: JSON) -> bool:
    """Whether a value, or the text of one, is a constant."""
    if isinstance(value, str) and not isinstance(constant, str):
        if constant is None:
            return value.lower() in ("", "none", "null")
        if isinstance(constant, bool | int | float):
            try:
                value = TypeAdapter(type(constant)).validate_python(value)
            except ValidationError:
                return False
        else:
            value = wire.as_json(value)
    return isinstance(value, bool) == isinstance(constant, bool) and value == constant
