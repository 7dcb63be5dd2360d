"""Removed settings, and those merged into others: none vanishes silently.

A removed setting is dropped if it has the value that is now constant, and refused by name if it has
another one: on a command line, in an environment variable, a preset or a YAML file, in keyword
arguments, and in the `config.yaml` of a resumed run.

To remove a setting, delete its field, give its default a name in the module that uses it, and add
one line to `REMOVED`: the class that declared it, its name, the value that is now constant, and
what to do instead:

    RemovedSetting("TrainerSettings", "eval_limit_ratio", 0.5, "leave it out: LIMIT_TRAIN keeps half
    of the workers"),

It then applies wherever that class or a subclass is used: under `env.` and `openai.`, without a
section, in a list of servers. A setting that a part of a reward, a member, a mount or a gold judge
may also have goes to `REMOVED_FROM_JUDGES`. A command with a small parser (`OneLineParser`) is
listed by its name: `RemovedSetting("label", "format", "jsonl", …)`. For a setting merged into
another one, `is_in_force` tells whether the new setting has the same effect as the old value; its
arguments are the section of the valid settings, all settings, and the value (`equals` makes it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, TypeAdapter, ValidationError

from judgegym.judges.config.fields import find_section
from judgegym.llm import wire
from judgegym.llm.wire import JSON

IsInForce: TypeAlias = Callable[[Any, Any, Any], bool]
"""Tells whether other settings have the same effect: takes the section, all settings, and the
value."""


@dataclass(frozen=True, slots=True)
class RemovedSetting:
    """One removed setting.

    Attributes:
        where: the class that declared it, or the command with a small parser that had it.
        name: its name, without a section.
        constant: the value that now always applies.
        advice: what to do instead; the end of a sentence.
        also: further values with the same meaning.
        is_in_force: tells whether another setting has the same effect as an old value; `None` if
            there is none.
    """

    where: str
    name: str
    constant: JSON
    advice: str
    also: tuple[JSON, ...] = ()
    is_in_force: IsInForce | None = None

    def is_constant(self, value: object) -> bool:
        """Return whether a value, or the text of a flag, is the constant."""
        return any(_is_equal(value, constant) for constant in (self.constant, *self.also))


def equals(name: str, key: str | None = None) -> IsInForce:
    """Make a check that another setting (or a key of its object) has the removed one's value."""

    def is_in_force(section: Any, settings: Any, value: Any) -> bool:
        current = getattr(section, name)
        return _is_equal(value, current if key is None else current[key])

    return is_in_force


def _removed_price(where: str, name: str, kind: str) -> RemovedSetting:
    """Declare a removed price that is now a key of a setting of all prices."""
    return RemovedSetting(
        where,
        f"{name}_{kind}",
        None,
        f"give {name} input=…,output=…",
        is_in_force=equals(name, kind),
    )


_RUNS = ("RunSettings", "RowsRunSettings")
"""The run settings of environments and of data sets."""
_PRICES = ("input", "output", "cached_input")

REMOVED: Sequence[RemovedSetting] = (
    RemovedSetting(
        "MonitorSettings",
        "alarm_webhook_env",
        None,
        "alarms are in log and page, at Weights & Biases, in /metrics",
    ),
    RemovedSetting(
        "TrainerSettings",
        "num_rollouts_to_keep",
        32,
        "leave it out: the table at Weights & Biases has 32 groups",
    ),
    RemovedSetting(
        "TrainerSettings",
        "num_rollouts_per_group_for_logging",
        1,
        "leave it out: it shows one of each group",
    ),
    RemovedSetting(
        "TrainerSettings",
        "min_items_sent_before_logging",
        2,
        "leave it out: a step with two groups is logged",
    ),
    RemovedSetting(
        *(
            "RewardServerSettings",
            "queue_deadline",
            100.0,
            "--deadline also bounds the wait for a place at the judge",
        ),
        is_in_force=equals("deadline"),
    ),
    RemovedSetting(
        *("RewardServerSettings", "request_deadline", None, "--deadline bounds a request in all"),
        is_in_force=equals("deadline"),
    ),
    RemovedSetting(
        *(
            "RewardServerSettings",
            "max_connections",
            4096,
            "more are open where --max_pending is higher",
        ),
        is_in_force=equals("max_pending"),
    ),
    RemovedSetting(
        "RewardServerSettings",
        "max_aggregate_mb",
        256.0,
        "send fewer rollouts to /aggregate_metrics at once",
    ),
    RemovedSetting("RewardServerSettings", "header_timeout", 10.0, "leave it out"),
    RemovedSetting("RewardServerSettings", "body_timeout", 30.0, "leave it out"),
    RemovedSetting(
        "AttackSettings",
        "false_discoveries",
        0.05,
        "attack.json has the adjusted p-value of each attack",
    ),
    RemovedSetting(
        "AttackSettings", "worst_rows", 5, "the page and attack.json show five rows of each attack"
    ),
    RemovedSetting(
        "label",
        "export",
        None,
        "labels are JSON lines, in the file that --out names; --import reads them",
    ),
    RemovedSetting(
        "TrainerSettings",
        "row_flat_after",
        2,
        "leave it out: two groups with equal rewards make a row flat",
    ),
    RemovedSetting(
        "TrainerSettings",
        "row_flat_share",
        0.25,
        "leave it out: a flat row is drawn in a quarter of the epochs",
    ),
    RemovedSetting(
        "TrainerSettings",
        "eval_limit_ratio",
        0.5,
        "leave it out: LIMIT_TRAIN keeps half of the workers",
    ),
    RemovedSetting(
        "RolloutSettings",
        "max_num_workers_per_node",
        8,
        "set max_num_workers: this times the number of servers",
    ),
    RemovedSetting(
        "MonitorSettings", "gold_queue", 256, "leave it out: 256 rollouts wait for the gold judge"
    ),
    RemovedSetting("MonitorSettings", "gold_ranked_share", 0.25, "leave it out, or set gold_share"),
    RemovedSetting(
        "PolicySettings", "n_kwarg_is_ignored", False, "leave it out: the first response tells"
    ),
    RemovedSetting(
        "UserSettings",
        "user_finish_reasons",
        [],
        "give openai.finish_reasons, which holds for the simulated user, too",
        is_in_force=lambda _, settings, value: set(value) <= set(settings.openai.finish_reasons),
    ),
    *(_removed_price("PolicySettings", "price", kind) for kind in _PRICES),
    *(_removed_price("UserSettings", "user_price", kind) for kind in _PRICES),
    RemovedSetting(
        "UserSettings", "user_timeout", 600.0, "leave it out: an attempt has ten minutes"
    ),
    *(
        RemovedSetting(where, "disk_full_deadline", 600.0, "leave it out: a run waits ten minutes")
        for where in _RUNS
    ),
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


def find_removed_setting(model: type[BaseModel] | str, name: object) -> RemovedSetting | None:
    """Find the removed setting of a settings class, or of a command; `None` if there is none."""
    if isinstance(model, str):
        classes = {model}
    elif name in model.model_fields:
        return None
    else:
        classes = {base.__name__ for base in model.__mro__}
    removed = (*REMOVED, *REMOVED_FROM_JUDGES)
    for setting in removed:
        if setting.name == name and setting.where in classes:
            return setting
    return None


def find_removed_at(model: type[BaseModel], path: str) -> RemovedSetting | None:
    """Find the removed setting at a dotted path."""
    first, _, remainder = path.partition(".")
    section = find_section(model, first)
    if remainder:
        if section is None:
            return None
        return find_removed_at(section, remainder)
    return find_removed_setting(model, first)


def find_removed_from_judges(name: object) -> RemovedSetting | None:
    """Find the removed setting of judges with this name; `None` if there is none."""
    return next((setting for setting in REMOVED_FROM_JUDGES if setting.name == name), None)


def _is_equal(value: object, constant: JSON) -> bool:
    """Return whether a value, or its text, equals a constant."""
    if isinstance(value, str) and not isinstance(constant, str):
        if constant is None:
            return value.lower() in ("", "none", "null")
        if isinstance(constant, bool | int | float):
            try:
                value = TypeAdapter(type(constant)).validate_python(value)
            except ValidationError:
                return False
        else:
            value = wire.loads_or_none(value)
    return isinstance(value, bool) == isinstance(constant, bool) and value == constant
