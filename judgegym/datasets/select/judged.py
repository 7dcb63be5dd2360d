"""How a scored file was made, as the run beside it says; without a run, nothing but what the file holds.

Guarantee: what is not known is left out, and nothing is guessed. Keys are not in a run's files, and user names and
passwords of URLs are taken out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from environments.runs.directory import CONFIG, FAILURES, SAMPLES, run_directory_of
from judgegym.datasets.rows.columns import ColumnSettings
from judgegym.datasets.score.settings import DatasetJudgeSettings, ScoreSettings
from judgegym.datasets.select.options import COLUMNS
from judges.config.fields import is_operational
from judges.config.text import prompt_digest
from judges.config.yaml_text import load_yaml
from judges.llm import wire
from judges.llm.errors import RunDirectoryError, SettingsError
from judges.llm.urls import without_credentials
from judges.llm.usage import Usage
from judges.llm.wire import JSON

_LONGEST_VALUE = 200
_SHOWN_BY_ITSELF = ("data", "out", "judge", "judge_model_name", "offline")


@dataclass(frozen=True, slots=True)
class Judged:
    """How a file was judged.

    Attributes:
        settings: all settings of the run; empty if there is none.
        run: its directory.
    """

    settings: Mapping[str, JSON] = field(default_factory=dict)
    run: Path | None = None

    @classmethod
    def of(cls, scored: Path) -> Judged:
        """Read the run beside a scored file.

        Raises:
            RunDirectoryError: its settings are damaged.
        """
        run = run_directory_of(scored)
        path = run / CONFIG
        try:
            found = load_yaml(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            raise RunDirectoryError(f"{path}: the settings of the run cannot be read: {error}") from None
        if not isinstance(found, Mapping):
            raise RunDirectoryError(f"{path}: expected the settings of a run of judgegym score")
        return cls({str(name): value for name, value in found.items()}, run)

    def columns(self, given: Mapping[str, str]) -> ColumnSettings:
        """The columns with which it was judged, where none are given.

        Raises:
            SettingsError: the run says what is no column.
        """
        known = {name: self.settings[name] for name in COLUMNS if self.settings.get(name) is not None}
        try:
            return ColumnSettings.model_validate(known | dict(given))
        except ValidationError as error:
            names = ", ".join(str(each["loc"][0]) for each in error.errors())
            raise SettingsError(f"the run beside the file has settings that name no columns: {names}") from None

    @property
    def judge(self) -> str | None:
        """The kind of judge."""
        return _text(self.settings.get("judge"))

    @property
    def model(self) -> str | None:
        """The judge's model; `None` if it is not known, or if a stand-in answered."""
        return None if self.offline else _text(self.settings.get("judge_model_name"))

    @property
    def offline(self) -> bool:
        """Whether a stand-in judged, whose scores mean nothing."""
        return self.settings.get("offline") is True

    @property
    def data(self) -> str | None:
        """What was judged."""
        return _text(self.settings.get("data"))

    def protocol(self) -> Mapping[str, JSON]:
        """The settings that determine the scores, where they differ from the defaults; a long text is its digest."""
        return {
            name: prompt_digest(value) if _is_long(value) else value
            for name, value in _differing(self.settings).items()
            if name not in _SHOWN_BY_ITSELF
            and name not in ColumnSettings.model_fields
            and not is_operational(ScoreSettings, name)
        }

    def prompt_digests(self) -> Mapping[str, str]:
        """The digests of the judge's prompts, by the setting that replaces them; empty if they are not known."""
        of_judge = {name: self.settings[name] for name in DatasetJudgeSettings.model_fields if name in self.settings}
        if not of_judge:
            return {}
        try:
            return DatasetJudgeSettings.model_validate(of_judge).prompt_digests()
        except ValidationError:  # a run of another version
            return {}

    def usage(self) -> Usage | None:
        """Tokens and cost of all calls to the judge; `None` if there is no run, or it says nothing of them."""
        return None if self.run is None else _usage_of(self.run)

    def command(self, scored: Path) -> Sequence[str]:
        """The words after `judgegym score` that make the file again; none if it is not known how it was made.

        A long text has the name of a file in its place.
        """
        if self.data is None:
            return ()
        words = [without_credentials(self.data), f"--out={scored}"]
        for name, value in _differing(self.settings).items():
            if name in ("data", "out"):
                continue
            words.append(f"--{name}={f'{name}.txt' if _is_long(value) else _word(value)}")
        if self.judge is not None and not any(word.startswith("--judge=") for word in words):
            words.insert(2, f"--judge={self.judge}")
        return words


def _differing(settings: Mapping[str, JSON]) -> dict[str, JSON]:
    """The settings that differ from the defaults; and the judge's model, which may get another default."""
    found: dict[str, JSON] = {}
    for name, value in settings.items():
        declared = ScoreSettings.model_fields.get(name)
        if declared is None:
            continue
        default: Any = to_jsonable_python(declared.get_default(call_default_factory=True))
        is_model = name == "judge_model_name" and settings.get("offline") is not True
        if value != default or is_model:
            found[name] = value
    return found


def _is_long(value: JSON) -> TypeGuard[str]:
    return isinstance(value, str) and (len(value) > _LONGEST_VALUE or "\n" in value)


def _word(value: JSON) -> str:
    return without_credentials(value) if isinstance(value, str) else wire.dumps(value).decode()


def _text(value: JSON) -> str | None:
    return value if isinstance(value, str) else None


def _usage_of(run: Path) -> Usage | None:
    total, calls = Usage(), 0
    try:
        for line in _lines(run):
            for call in line["run"]["judge_calls"].values():
                total, calls = total + Usage(**call["usage"]), calls + 1
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # written by another version, or damaged
        return None
    return total if calls else None


def _lines(run: Path) -> Iterator[Any]:
    for name in (SAMPLES, FAILURES):
        path = run / name
        if path.is_file():
            with path.open("rb") as lines:
                yield from (wire.loads(line) for line in lines if line.strip())
