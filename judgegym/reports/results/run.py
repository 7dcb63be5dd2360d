"""Read a run of any environment from disk, finished or not.

Guarantees: nothing in the directory is changed, and no lock is taken. Samples are read one by one
and not kept. Damage is one `RunDirectoryError` that names the file.
"""

from __future__ import annotations

import math
import os
import re
import weakref
import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Literal

from judgegym.data.opening import FILE_KINDS
from judgegym.engine.records import Sample, read_sample
from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.directory import (
    CONFIG,
    FAILURES,
    METRICS,
    SAMPLES,
    locate_run_directory,
    read_settings,
)
from judgegym.engine.runs.lines import RawLine
from judgegym.engine.runs.recorded_calls import CALLS, PACKED_CALLS
from judgegym.engine.settings.policy import STAND_IN_JUDGE
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.judge import JudgeDefinition
from judgegym.judges.core.judgment import Scale
from judgegym.judges.prompt_files.settings import PromptJudgeSettings
from judgegym.judges.rubrics.prompt import RubricJudgeSettings
from judgegym.judges.scorers.registry import JUDGES
from judgegym.llm import wire
from judgegym.llm.errors import DataError, RunDirectoryError
from judgegym.llm.wire import JSON, mapping_or_empty, text_or_empty
from judgegym.statistics.agreement import Interval
from judgegym.statistics.intervals import Ends
from judgegym.statistics.paired import RatioTerms

Kind = Literal["win_rate", "pass_rate", "score"]
"""The kind of the rows' values: won, tied or lost against a baseline; 1 or 0; scores on a scale."""
_FILES = (FAILURES, SAMPLES)
"""A row with lines in both files is finished: it failed first, and succeeded later."""
SCORED = "score"
"""The environment name of runs of `judgegym score`, whose rows are responses of a data set."""
CHOSEN_HIGHER = "chosen_higher_rate"
"""The headline of a scored data set of chosen and rejected responses, beside the mean score."""
_KINDS = {
    "aspect_critique": "aspect",
    "arena_hard": "arena_hard",
    "rubric_absolute": "rubric",
    "rubric_checklist": "checklist",
}
"""The kind of judge of environments that have only one."""
_UID_START = re.compile(rb'\{"uid":"([\x20\x21\x23-\x5b\x5d-\x7e]*)"')
"""The beginning of a line whose uid is plain ASCII without an escape."""
_READ = (CONFIG, METRICS, *_FILES, CALLS, PACKED_CALLS)
_EXPECTED_RUN = "expected a run directory, or a file of score with its run beside it"
_WANTED, _MOST_NAMED = "expected what evaluate or score has written", 4


@dataclass(frozen=True, slots=True)
class RunHeadline:
    """The result of a run.

    Attributes:
        name: the metric, such as `eval/overall_winrate`.
        words: its name for people, such as `win rate`.
        value: its value.
        interval: its 95 % interval; `None` without one.
    """

    name: str
    words: str
    value: float
    interval: Interval | None = None


@dataclass(frozen=True)  # no slots: cached properties need a dictionary
class SavedRun:
    """A run directory.

    Attributes:
        path: the directory.
        config: the settings of the run, by section.
        general: `config_general` of `metrics.json`: what was measured, and how; empty until the run
            is complete.
        metrics: all metrics by full name, finite or `None` if unknown; empty until the run is
            complete.
        date: when the run ended; for an incomplete run, when its files last changed.
    """

    path: Path
    config: Mapping[str, JSON]
    general: Mapping[str, JSON]
    metrics: Mapping[str, float | int | None]
    date: datetime

    @classmethod
    def open(cls, path: Path) -> SavedRun:
        """Open a run directory; samples and calls are read on access.

        Args:
            path: the directory, or a scored file with its run beside it.

        Raises:
            RunDirectoryError: there is no such directory, it holds no run, a file is damaged, or
                the path is another file.
        """
        requested_path = path.expanduser()
        path = requested_path
        if not path.is_dir():
            path = find_scoring_run(path) or path
        if path.is_file():
            is_run_file = (path.parent / METRICS).is_file()
            expected = _EXPECTED_RUN
            if is_run_file:
                expected = f"give the run directory that it is in: {path.parent}"
            raise RunDirectoryError(f"{path} is a file; {expected}")
        if not path.is_dir():
            raise RunDirectoryError(
                f"{path}: there is no such run directory, nor a scored file with a run beside it"
            )
        for name in _READ:
            if (path / name).exists() and not (path / name).is_file():  # reading a pipe would hang
                raise RunDirectoryError(f"{path / name} is no file")
        if not is_run_directory(path):
            folders = filter(Path.is_dir, path.glob("*/"))
            inside = sorted(str(folder) for folder in folders if is_run_directory(folder))
            more = ", …" if len(inside) > _MOST_NAMED else ""
            expected = _WANTED
            if inside:
                expected = f"expected one of its runs: {', '.join(inside[:_MOST_NAMED])}{more}"
            raise RunDirectoryError(
                f"{path} is no run directory: it has neither {CONFIG} nor {METRICS}; {expected}"
            )
        config = read_settings(path)
        if not (path / METRICS).exists():
            return cls(path, config, {}, {}, _read_date(path, {}))
        try:
            report = wire.loads((path / METRICS).read_bytes())
        except (OSError, ValueError) as error:
            raise RunDirectoryError(f"{path / METRICS} cannot be read: {error}") from error
        if not isinstance(report, Mapping):
            raise RunDirectoryError(f"{path / METRICS}: expected an object")
        general = report.get("config_general")
        values = wire.lookup(report, "results.all")
        if not isinstance(general, Mapping) or not isinstance(values, Mapping) or not general:
            raise RunDirectoryError(
                f"{path / METRICS}: expected config_general and results.all, which are objects"
            )
        metrics = {
            name: _finite_number(value) for name, value in values.items() if _is_metric(value)
        }
        return cls(path, config, general, metrics, _read_date(path, general))

    @property
    def has_lost_rows(self) -> bool:
        """Whether the run has metrics, but its files of rows are gone."""
        return self.is_complete and not any((self.path / name).exists() for name in _FILES)

    @property
    def is_complete(self) -> bool:
        """Whether the run has ended and has metrics."""
        return bool(self.general)

    @property
    def environment(self) -> str:
        """The environment's name; for an incomplete run by its directory's name, or empty."""
        first, parts, _ = self.path.name.partition("--")
        scored_name = SCORED if "data" in self.config and "judge" in self.config else ""
        return self._general_text("environment") or scored_name or (first if parts else "")

    @property
    def is_scored(self) -> bool:
        """Whether it is a scored data set."""
        return self.environment == SCORED

    @property
    def items(self) -> str:
        """The name of its rows: `responses` of a data set, or `rows` of an evaluation."""
        if self.is_scored:
            return "responses"
        return "rows"

    @property
    def policy(self) -> str:
        """What was evaluated: a model, a file of answers, a data set, or several candidates."""
        if self.is_scored:
            return self._general_text("model_name") or _name_answers(
                Path(text_or_empty(self.config.get("data")))
            )
        answers = _name_answers(Path(text_or_empty(wire.lookup(self.config, "env.model_answers"))))
        return (
            self._general_text("model_name")
            or answers
            or text_or_empty(wire.lookup(self.config, "openai.model_name"))
        )

    @property
    def subject(self) -> str:
        """What was evaluated, or the directory's name if that is unknown."""
        return self.policy or self.path.resolve().name

    @property
    def judge(self) -> str:
        """The name of the judge, or of several."""
        if self.is_scored and not self.is_complete:
            if self.config.get("offline"):
                return STAND_IN_JUDGE
            return text_or_empty(self.config.get("judge_model_name"))
        return self._general_text("judge_model_name") or text_or_empty(
            wire.lookup(self.config, "env.judge_model_name")
        )

    @property
    def judge_settings(self) -> Mapping[str, JSON]:
        """The settings of the judge; in runs of `score` they have no section."""
        if self.is_scored:
            return self.config
        return mapping_or_empty(self.config.get("env"))

    @property
    def judge_kind(self) -> str:
        """The kind of judge, as `score --judge` names it; empty for a user's own environment."""
        return _KINDS.get(self.environment) or text_or_empty(self.judge_settings.get("judge"))

    @property
    def judge_labels(self) -> Mapping[str, float]:
        """The labels of the judge's prompt file, with scores from 0 to 1; empty without one."""
        scale = None
        if self._has_settings(PromptJudgeSettings):
            scale = wire.lookup(self.judge_settings, "judge_prompt.scale")
        if scale == "yes/no":
            return {"no": 0.0, "yes": 1.0}
        scores = {
            name: score
            for name, score in mapping_or_empty(scale).items()
            if isinstance(score, int | float)
        }
        return dict(sorted(scores.items(), key=lambda item: item[1]))

    @property
    def judge_scale(self) -> Scale | None:
        """The scale of the judge's raw scores; `None` if it has none, or one for each row."""
        settings, ends = self.judge_settings, list[JSON]()
        if self._has_settings(RubricJudgeSettings):
            ends = [settings.get("scale_min"), settings.get("scale_max")]
        elif self._has_settings(PromptJudgeSettings):
            scale = wire.lookup(settings, "judge_prompt.scale")
            ends = [*scale] if isinstance(scale, list) else []
        whole = [end for end in ends if isinstance(end, int)]
        if len(whole) == 2:
            return Scale(*whole)
        return None

    @property
    def headline(self) -> RunHeadline | None:
        """The result; `None` if the run is not complete or has no headline metric."""
        name = self._general_text("headline")
        value = self.metrics.get(name)
        if value is None:
            return None
        words = self._general_text("headline_words") or name.rpartition("/")[2].replace("_", " ")
        low, high = (self.metrics.get(f"{name}_ci_{end}") for end in ("low", "high"))
        return RunHeadline(
            name, words, value, None if low is None or high is None else Interval(low, high)
        )

    @property
    def headline_ends(self) -> Ends | None:
        """The ends of the scale of the rows' values; `None` if they are 0 and 1, or unknown."""
        ends = self.general.get("headline_scale")
        if not isinstance(ends, list) or len(ends) != 2:
            return None
        low, high = map(_finite_number, ends)
        if low is None or high is None or low >= high:
            return None
        return Ends(low, high)

    @property
    def judge_definition(self) -> JudgeDefinition | None:
        """The built-in kind of its judge; `None` for others, whose files a report must not run."""
        return JUDGES.get(self.judge_kind)

    def _has_settings(self, settings: type[JudgeSettings]) -> bool:
        return self.judge_definition is not None and self.judge_definition.settings is settings

    def _general_text(self, name: str) -> str:
        return text_or_empty(self.general.get(name))

    def samples(self, uids: Container[str] | None = None) -> Iterator[Sample[JSON]]:
        """Read rows one by one: finished rows, then failed rows, each in the order of the dataset.

        Rows of an incomplete run come in the order in which they ended, each with its last line.

        Args:
            uids: the rows to read; by default all.

        Raises:
            RunDirectoryError: a file cannot be read.
        """

        def read(line: RawLine) -> Sample[JSON] | None:
            uid = _read_uid(line)
            if uids is not None and uid not in uids:
                return None
            is_last = self.is_complete or self.line_locations.get(uid, ())[:3] == (
                line.path.name,
                line.number,
                line.offset,
            )
            if is_last:
                return read_sample(line)
            return None

        for name in reversed(_FILES):
            yield from (
                sample for _, sample in read_lines(self.path / name, read) if sample is not None
            )

    def read_sample(self, uid: str) -> Sample[JSON]:
        """Read one row.

        Raises:
            RunDirectoryError: the run has no such row.
            DataError: the file has changed since rows were looked up.
        """
        return read_sample(self.read_line(uid))

    def read_line(self, uid: str) -> RawLine:
        """Read the last line of a row; if a file was replaced meanwhile, the old one is read.

        Raises:
            RunDirectoryError: the run has no such row.
            DataError: the file has changed since rows were looked up.
        """
        if uid not in self.line_locations:
            raise RunDirectoryError(f"{self.path} has no row {uid!r}")
        name, number, offset, length, checksum = self.line_locations[uid]
        data = os.pread(self._files[name], length, offset)
        if zlib.crc32(data) != checksum:
            changed = (
                "the run has changed since its answers were looked up; run again when it is done"
            )
            raise DataError(f"{self.path / name}: {changed}")
        return RawLine(self.path / name, number, offset, data)

    @cached_property
    def line_locations(self) -> Mapping[str, tuple[str, int, int, int, int]]:
        """For each row its file, and the number, offset, length and checksum of its last line."""
        locations: dict[str, tuple[str, int, int, int, int]] = {}
        for name in self._files:
            for line, sample in read_lines(self.path / name, read_sample):
                length, checksum = len(line.data), zlib.crc32(line.data)
                locations[sample.uid] = name, line.number, line.offset, length, checksum
        return locations

    @cached_property
    def _files(self) -> Mapping[str, int]:
        """The open files of rows; they are closed with the run."""
        descriptors = {}
        for path in (self.path / name for name in _FILES if (self.path / name).exists()):
            try:
                descriptors[path.name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise RunDirectoryError(f"{path} cannot be read: {error.strerror}") from error
            weakref.finalize(self, os.close, descriptors[path.name])
        return descriptors


def classify_metric(metric: str, words: str, sides: Sequence[RatioTerms]) -> Kind:
    """Return the kind of the rows' values.

    A win rate has that name or label. A pass rate has only the values 0 and 1. All others are
    scores.
    """
    import numpy as np

    name = f"{words} {metric}".lower().replace("_", " ").replace("-", " ")
    if "win rate" in name or "winrate" in name:
        return "win_rate"
    if all(np.isin(side.values, (0.0, 1.0)).all() for side in sides):
        return "pass_rate"
    return "score"


def is_run_directory(path: Path) -> bool:
    """Return whether a folder is the run directory of an evaluation or of `judgegym score`."""
    return any((path / name).exists() for name in (CONFIG, METRICS, SAMPLES, FAILURES))


def find_scoring_run(path: Path) -> Path | None:
    """Return the run directory beside a scored file; `None` for a file without a run."""
    run_path = locate_run_directory(path)
    is_one = path.suffix in FILE_KINDS and any(
        (run_path / name).is_file() for name in (METRICS, *_FILES)
    )
    if is_one:
        return run_path
    return None


def _name_answers(path: Path) -> str:
    """Return the name of a file of answers, or of the run directory with the answers."""
    if path.name in (SAMPLES, FAILURES, CALLS, PACKED_CALLS):
        return path.parent.name
    if path.suffix in FILE_KINDS:
        return path.stem
    return path.name


def _read_uid(line: RawLine) -> str:
    match = _UID_START.match(line.data)
    if match is not None:  # as they are written: the rest is read when it is needed
        return match[1].decode()
    return str(line.fields()["uid"])


def list_objects(value: JSON, name: str) -> Sequence[Mapping[str, JSON]]:
    """Return the objects in a list that is a field of an object; empty without such a list."""
    listed = mapping_or_empty(value).get(name)
    if isinstance(listed, list):
        return [entry for entry in listed if isinstance(entry, Mapping)]
    return []


def _read_date(path: Path, general: Mapping[str, JSON]) -> datetime:
    """Return when a run ended if its date is valid in every zone, else when its files changed."""
    try:
        date = datetime.fromisoformat(text_or_empty(general.get("date")))
        if datetime.min.year < date.year < datetime.max.year:
            if date.tzinfo:
                return date
            return date.replace(tzinfo=timezone.utc)
    except ValueError:
        pass
    files = [path / name for name in (METRICS, SAMPLES, CONFIG) if (path / name).exists()]
    changed = max(file.stat().st_mtime for file in files or [path])  # they may be removed meanwhile
    return datetime.fromtimestamp(changed, timezone.utc)


def _is_metric(value: JSON) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _finite_number(value: JSON) -> float | int | None:
    """Return a number; `None` if it is not finite, or too large for a float."""
    try:
        if isinstance(value, int | float) and math.isfinite(value):
            return value
        return None
    except OverflowError:
        return None
