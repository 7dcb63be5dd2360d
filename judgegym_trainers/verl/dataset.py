"""An environment's rows in the format of verl's dataset, for `data.train_files`.

    from judgegym_trainers.verl.dataset import write_rows
    write_rows("rubric_absolute", "train.jsonl")        # data.train_files=train.jsonl

A row has `prompt`, and the row's id in `extra_info.uid`.

Source: verl 0.9.1, `verl.utils.dataset.rl_dataset`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym_trainers.single_turn import EnvironmentSource, get_environment, parse_source


def write_rows(
    environment: EnvironmentSource | Mapping[str, object] | str, path: str | Path
) -> int:
    """Write all rows to a JSONL file.

    Args:
        environment: a name, a source, or the arguments of `EnvironmentSource.from_settings`, as in
            `reward_kwargs.environment`.
        path: the file.

    Returns:
        The number of rows.

    Raises:
        SettingsError: a setting is wrong.
        DataError: the rows cannot be loaded.
    """
    source = parse_source(environment)
    rows = get_environment(source)
    with Path(path).open("wb") as file:
        for row in rows.rows():
            info: JSON = {
                "uid": row.uid,
                "split": "train" if source.split == "train" else "validation",
            }
            line = {
                "data_source": source.environment,
                "prompt": cast(JSON, list(row.messages)),
                "reward_model": {"style": "judge", "ground_truth": ""},
                "extra_info": info,
            }
            file.write(wire.dumps(line) + b"\n")
    return len(rows)
