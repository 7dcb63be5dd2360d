"""Which environment a trainer has chosen, with which settings.

Guarantees: a source is a small value that pickles, compares and hashes, so that it can travel to other processes and
find there the environment that is already open; nothing is read before it is opened; its `repr` shows no setting, since
an API key may be among them.

What a trainer gets of an environment to ask its policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, cast

from judgegym.data.rows import Split
from judgegym.integrations.scores.requests import CellError, plain
from judgegym.integrations.scores.sources import refuse_unknown
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import Message

_ARGUMENTS = ("environment", "settings", "config", "offline", "split")


@dataclass(frozen=True, slots=True)
class EnvironmentSource:
    """An environment with its settings.

    Attributes:
        environment: a built-in name such as `arena_hard`, or `path/to/file.py:Class`, `package.module:Class`.
        arguments: its settings as on the command line, such as `--env.judge_model_name=gpt-4.1-mini`. As there,
            environment variables are read beside them, and relative paths are those of the process that opens it.
        split: which rows.
    """

    environment: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    split: Split = "train"

    @classmethod
    def of(
        cls,
        environment: str,
        settings: Mapping[str, object] | None = None,
        *,
        config: str | Path | None = None,
        offline: bool = False,
        split: Split = "train",
    ) -> EnvironmentSource:
        """Name an environment by settings in any configuration library's containers.

        Args:
            environment: as in the attribute.
            settings: the settings under `env`, without that prefix, such as `{"judge_model_name": "gpt-4.1-mini"}`;
                one that is `None` is left at its default.
            config: a YAML file or a preset with further settings.
            offline: judge with the stand-in, on the bundled samples; its rewards mean nothing.
            split: which rows.

        Raises:
            SettingsError: a value has no counterpart in JSON, or the split is not known.
        """
        if split not in ("train", "eval"):
            raise SettingsError(f"split: expected train or eval, found {split!r}")
        named = [_argument(name, value) for name, value in (settings or {}).items() if value is not None]
        arguments = [*(() if config is None else (f"--config={config}",)), *named, *(("--offline",) if offline else ())]
        return cls(environment, tuple(arguments), split)


def source_of(value: EnvironmentSource | Mapping[str, object] | str) -> EnvironmentSource:
    """A source as settings name it: itself, the name of an environment, or the arguments of `EnvironmentSource.of`.

    Raises:
        SettingsError: an argument is unknown or wrong.
    """
    if isinstance(value, EnvironmentSource):
        return value
    if isinstance(value, str):
        return EnvironmentSource.of(value)
    refuse_unknown(map(str, value), _ARGUMENTS, within="environment")
    given = cast("dict[str, Any]", plain(value))
    if not isinstance(given.get("environment"), str) or not isinstance(given.get("settings", {}), Mapping):
        raise SettingsError("environment: expected `environment`, its name, and optionally a mapping of `settings`")
    return EnvironmentSource.of(given.pop("environment"), given.pop("settings", None), **given)


def _argument(name: str, value: object) -> str:
    """A setting as on the command line, where text is text and all else is JSON.

    Raises:
        SettingsError: the value has no counterpart in JSON.
    """
    if isinstance(value, PurePath):
        value = str(value)
    try:
        given = plain(value)
    except CellError as error:
        raise SettingsError(f"settings.{name}: {error}") from None
    return f"--env.{name}={given if isinstance(given, str) else wire.dumps(given).decode()}"


@dataclass(frozen=True, slots=True)
class EnvironmentRow:
    """A row of an environment.

    Attributes:
        uid: its id, unique in the dataset.
        messages: what the policy is asked, system prompt included.
        question: the text that identifies the row in reports.
        category: for metrics by category.
    """

    uid: str
    messages: tuple[Message, ...]
    question: str
    category: str | None = None
