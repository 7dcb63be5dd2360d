"""The rows of one of our environments as SkyRL's dataset has them.

Source: skyrl 0.4.0, `skyrl.train.dataset.PromptDataset`: the columns `prompt` and `env_class`; all others are `extras`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judgegym.integrations.single_turn.opened import opened
from judgegym.integrations.single_turn.source import EnvironmentSource, source_of
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError


def class_of(source: EnvironmentSource) -> str:
    """The id under which an environment is registered if none is given."""
    return f"judgegym_{opened(source).name}"


def dataset_rows(source: EnvironmentSource | str, *, env_class: str | None = None) -> Iterator[dict[str, Any]]:
    """The environment's rows as SkyRL's dataset has them; see `write_dataset`."""
    source = source_of(source)
    environment = opened(source)
    name = env_class or class_of(source)
    for index, row in enumerate(environment.rows()):
        yield {
            "prompt": [dict(message) for message in row.messages],
            "env_class": name,
            "reward_spec": {"method": "judgegym", "uid": row.uid},
            "extra_info": {"split": source.split, "index": index, "category": row.category or ""},
        }


def write_dataset(path: str | Path, source: EnvironmentSource | str, *, env_class: str | None = None) -> Path:
    """Write the environment's rows as a JSONL file for `data.train_data` or `data.val_data`.

    Args:
        path: the file, which ends in `.jsonl`.
        source: the environment, with the same split as the one that is registered.
        env_class: the id under which it is registered.

    Raises:
        SettingsError: SkyRL would not read a file of this name.
    """
    path = Path(path)
    if path.suffix != ".jsonl":
        raise SettingsError(f"{path}: expected a name that ends in .jsonl")
    path.write_bytes(b"".join(wire.dumps(row) + b"\n" for row in dataset_rows(source, env_class=env_class)))
    return path
