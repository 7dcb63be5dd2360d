"""The formats that `judgegym judge import` reads, and how a file's format is recognised."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judgegym.cli.judge_cards import criteria, openai_graders, prompts, rewardkit
from judgegym.cli.judge_cards.imports import (
    FieldNames,
    ImportedJudge,
    ImportNotes,
)
from judgegym.judges.config.presets import load_yaml
from judgegym.llm import wire

_MOST_BYTES = 50_000_000
_REWARD = "reward.toml"
_Importer = Callable[[Any, FieldNames, ImportNotes], ImportedJudge]


@dataclass(frozen=True)
class ForeignFormat:
    """A format of judges.

    Attributes:
        about: what it is.
        matches: returns whether a file's values are of this format.
        importer: reads the values.
    """

    about: str
    matches: Callable[[object], bool]
    importer: _Importer


FORMATS: Mapping[str, ForeignFormat] = {
    "openai": ForeignFormat(
        "a grader of OpenAI's evals or fine-tuning",
        openai_graders.is_grader,
        openai_graders.import_grader,
    ),
    "rewardkit": ForeignFormat(
        "a judge's TOML file of harbor-rewardkit, or a directory with its reward.toml",
        rewardkit.is_rewardkit,
        rewardkit.import_rewardkit,
    ),
    "verifiers": ForeignFormat(
        "verifiers' judge rubric, or its criteria",
        criteria.is_verifiers_rubric,
        criteria.import_verifiers_rubric,
    ),
    "verifiers_prompt": ForeignFormat(
        "a prompt of verifiers' judge, with scale and verdict",
        prompts.is_verifiers_prompt,
        prompts.import_verifiers_prompt,
    ),
    "autorubric": ForeignFormat(
        "a rubric of autorubric", criteria.is_autorubric, criteria.import_autorubric
    ),
    "rubric_rows": ForeignFormat(
        "rows of HealthBench or Rubrics as Rewards",
        criteria.is_rubric_rows,
        criteria.import_rubric_rows,
    ),
    "inspect": ForeignFormat(
        "a template of inspect_ai's model_graded_qa", prompts.is_inspect, prompts.import_inspect
    ),
}
"""By name after `--format`."""


def find_format(values: object, name: str | None) -> str:
    """Return the name of a file's format.

    Raises:
        ValueError: it is none of these, or more than one.
    """
    if name is not None:
        return name
    matching = [key for key, foreign in FORMATS.items() if foreign.matches(values)]
    if len(matching) == 1:
        return matching[0]
    expected = ", ".join(FORMATS)
    problem = "no known format" if not matching else f"could be {' or '.join(matching)}"
    raise ValueError(f"{problem}; choose one with --format: {expected}")


def read_values(path: Path) -> tuple[Any, bytes]:
    """Read a foreign file: JSON, JSON Lines, TOML, YAML, or else a text.

    A directory, or its `reward.toml`, is read with the judges' files in it and below.

    Raises:
        ValueError: it cannot be read.
    """
    if path.is_dir():
        return _read_folder(path)
    if path.name == _REWARD:
        return _read_folder(path.parent)
    data = _read_bytes(path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("expected UTF-8") from None
    values = _parse(text, path.suffix.lower())
    if isinstance(values, dict) and values.get("id") == "rubric" and "path" in values:
        values, more = _read_criteria(path, values)
        data += more
    return values, data


def _read_bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise ValueError(f"expected at most {_MOST_BYTES:,} bytes")
    return data


def _read_criteria(path: Path, values: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the settings of verifiers' rubric with the criteria that `path` names."""
    criteria_path = path.parent / str(values["path"])
    try:
        content, data = read_values(criteria_path)
    except ValueError as error:
        raise ValueError(f"path: {criteria_path}: {error}") from None
    listed = content.get("criteria") if isinstance(content, Mapping) else content
    return {**values, "criteria": listed}, data


def _read_folder(folder: Path) -> tuple[Any, bytes]:
    """Read the TOML files of a directory of harbor-rewardkit, and of those below.

    Raises:
        ValueError: a file cannot be read, or criteria are written in Python.
    """
    values: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    parts: list[bytes] = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py":
            raise ValueError(f"{path.name}: criteria in Python need a sandbox; import each judge")
        is_folder = path.is_dir() and not path.is_symlink()  # a link may lead back here
        if is_folder and not path.name.startswith((".", "__")):
            content, data = _read_folder(path)
            name = path.name if content.get(rewardkit.INPUTS) else ""
        elif path.suffix == ".toml":
            data = _read_bytes(path)
            content = _parse(data.decode("utf-8", "replace"), path.suffix)
            name = path.stem
        else:
            continue
        parts.append(data)
        if path.name == _REWARD and not content.keys() & {"judge", "criterion"}:
            values |= content
        elif name:
            inputs[name] = content
    return {**values, rewardkit.INPUTS: inputs}, b"".join(parts)


def _parse(text: str, suffix: str) -> Any:
    if suffix in (".yaml", ".yml"):
        return load_yaml(text, names_as_written=True)
    if suffix == ".toml":
        return _parse_toml(text)
    if suffix not in (".json", ".jsonl"):
        return text
    try:
        if suffix == ".jsonl":
            return [wire.loads(line) for line in text.splitlines() if line.strip()]
        return wire.loads(text)
    except ValueError as error:
        raise ValueError(f"expected JSON: {error}") from None


def _parse_toml(text: str) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib

        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"expected TOML: {error}") from None
    raise ValueError("TOML is read with Python 3.11 or later")
