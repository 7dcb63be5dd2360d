"""The origin of a scored file, by the run beside it; without a run, little is known.

Guarantee: unknown facts are left out, not guessed. A run's files hold no keys, and user names and
passwords are removed from URLs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from judgegym.datasets.rows.schema import ColumnSettings
from judgegym.datasets.rows.task import DatasetJudgeSettings
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.datasets.select.options import SelectOptions
from judgegym.datasets.select.selection import Rule
from judgegym.engine.runs.directory import METRICS, locate_run_directory, read_settings
from judgegym.engine.settings.policy import PolicySettings
from judgegym.judges.config.explaining import prompt_digest
from judgegym.judges.config.fields import DeclaredSetting
from judgegym.judges.scorers.registry import JUDGES
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.urls import redact_credentials
from judgegym.llm.wire import JSON

_COLUMNS = ("prompt_column", "response_column", "context_column", "group_by")
"""The column settings that matter for selecting responses."""
_LONGEST_VALUE = 200
_SHOWN_BY_ITSELF = ("data", "out", "judge", "judge_model_name", "offline", "openai.model_name")
_POLICY = "openai"
_MODELS = ("judge_model_name", "openai.model_name")


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a scored file.

    Attributes:
        settings: all settings of the run; empty if there is none.
        metrics: its `metrics.json`; empty if there is none.
    """

    settings: Mapping[str, JSON] = field(default_factory=dict)
    metrics: Mapping[str, JSON] = field(default_factory=dict)

    @classmethod
    def read(cls, scored: Path) -> Origin:
        """Read the run beside a scored file.

        Raises:
            RunDirectoryError: its settings are damaged.
        """
        run = locate_run_directory(scored)
        settings = read_settings(run)
        try:
            metrics = wire.loads((run / METRICS).read_bytes()) if settings else None
        except (OSError, ValueError):  # an unfinished run has no metrics
            metrics = None
        return cls(settings, metrics if isinstance(metrics, Mapping) else {})

    def columns(self, options: SelectOptions) -> ColumnSettings:
        """Return the columns to read the file by: those of the options, else those of the run.

        Raises:
            SettingsError: the run's settings name no valid columns.
        """
        columns = {
            name: getattr(options, name, None) or self.settings.get(name) for name in _COLUMNS
        }
        try:
            return ColumnSettings.model_validate(
                {name: value for name, value in columns.items() if value is not None}
            )
        except ValidationError as error:
            names = ", ".join(str(problem["loc"][0]) for problem in error.errors())
            raise SettingsError(
                f"the run beside the file has settings that name no columns: {names}"
            ) from None

    def text(self, name: str) -> str | None:
        """Return a setting that is a text, by its dotted name; `None` without one."""
        value = wire.lookup(self.settings, name)
        if isinstance(value, str):
            return value
        return None

    def scores_warning(self, rule: Rule) -> str | None:
        """Return a warning if a rule compares scores across prompts that cannot be compared."""
        judge = self.text("judge")
        kind = JUDGES.get(str(judge))
        if rule.min_score is None or kind is None or not kind.needs_group:
            return None
        return (
            f"The judge ({judge}) compares the responses to one prompt, and its scores of "
            "different prompts cannot be compared, as --threshold and --min_score do; --best, "
            "--top and --pairs do not."
        )

    @property
    def offline(self) -> bool:
        """Whether a stand-in judged; its scores mean nothing."""
        return self.settings.get("offline") is True

    @property
    def asks_policy(self) -> bool:
        """Whether a policy was sampled for the responses."""
        return self.settings.get("responses_per_prompt") is not None

    @property
    def stand_ins(self) -> Sequence[str]:
        """The roles (`judge`, `policy`) that were stand-ins."""
        kind = JUDGES.get(str(self.settings.get("judge")))
        roles = (("judge", kind is None or kind.asks_endpoint), ("policy", self.asks_policy))
        if not self.offline:
            return ()
        return tuple(role for role, is_asked in roles if is_asked)

    @property
    def data_digest(self) -> str | None:
        """The digest of the judged data set."""
        datasets = wire.lookup(self.metrics, "config_general.datasets")
        digest = None
        if isinstance(datasets, list) and len(datasets) == 1:
            digest = wire.lookup(datasets[0], "digest")
        if isinstance(digest, str):
            return digest
        return None

    def metric(self, name: str) -> float | int | None:
        """Return a metric; `None` if it is not known."""
        values = wire.lookup(self.metrics, "results.all")
        value = values.get(f"eval/{name}") if isinstance(values, Mapping) else None
        if isinstance(value, float | int):
            return value
        return None

    def protocol(self) -> Mapping[str, JSON]:
        """Return the non-default settings that determine the scores; long texts as digests."""
        left_out = {*_SHOWN_BY_ITSELF, *ColumnSettings.model_fields}
        settings: dict[str, JSON] = {}
        for name, value in _differing_settings(self.settings).items():
            if name not in left_out and _determines_scores(name):
                settings[name] = prompt_digest(value) if _is_long(value) else value
        return settings

    def prompt_digests(self) -> Mapping[str, str]:
        """Return the digests of the judge's prompts, by setting; empty if unknown."""
        digests = wire.lookup(self.metrics, "config_general.judge_prompt_digests")
        if isinstance(digests, Mapping) and digests:
            return {name: digest for name, digest in digests.items() if isinstance(digest, str)}
        judge_type = DatasetJudgeSettings.select_class(self.settings)
        judge_settings = {
            name: self.settings[name] for name in judge_type.model_fields if name in self.settings
        }
        try:
            if judge_settings:
                return judge_type.model_validate(judge_settings).prompt_digests()
            return {}
        except ValidationError:  # a run of another version
            return {}

    def command(self, scored: Path) -> Sequence[str]:
        """Return the words after `judgegym score` that reproduce the file; empty if unknown.

        A long text is replaced by the name of a file.
        """
        data, judge = self.text("data"), self.text("judge")
        if data is None:
            return ()
        differing = _differing_settings(self.settings)
        values = {"judge": judge, **differing} if judge is not None else differing
        flags = []
        for name, value in values.items():
            if name not in ("data", "out"):
                text = f"{name}.txt" if _is_long(value) else _format_value(value)
                flags.append(f"--{name}={text}")
        return [redact_credentials(data), f"--out={scored}", *flags]


def _differing_settings(settings: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the settings that are not defaults, and the models; policy settings by dotted name."""
    policy = settings.get(_POLICY)
    differing = {
        name: value
        for name, value in _iter_section_settings(settings, ScoreSettings)
        if name != _POLICY
    }
    if isinstance(policy, Mapping):
        differing |= {
            f"{_POLICY}.{name}": value
            for name, value in _iter_section_settings(policy, PolicySettings)
        }
    left_out = _MODELS if settings.get("offline") is True else ()
    return {name: value for name, value in differing.items() if name not in left_out}


def _iter_section_settings(
    settings: Mapping[str, JSON], declared: type[BaseModel]
) -> Iterator[tuple[str, JSON]]:
    for name, value in settings.items():
        setting = declared.model_fields.get(name)
        if setting is None:
            continue
        default: Any = to_jsonable_python(setting.get_default(call_default_factory=True))
        if value != default or name in ("judge_model_name", "model_name"):
            yield name, value


def _determines_scores(name: str) -> bool:
    section, _, setting = name.rpartition(".")
    if section:
        return setting == "extra_body"
    return not DeclaredSetting(name, ScoreSettings, name).is_operational


def _is_long(value: JSON) -> TypeGuard[str]:
    return isinstance(value, str) and (len(value) > _LONGEST_VALUE or "\n" in value)


def _format_value(value: JSON) -> str:
    if isinstance(value, str):
        return redact_credentials(value)
    return wire.dumps(value).decode()
