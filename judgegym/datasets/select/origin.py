"""How a scored file was made, as the run beside it says; without a run, nothing but what the file holds.

Guarantee: what is not known is left out, and nothing is guessed. Keys are not in a run's files, and user names and
passwords of URLs are taken out.
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
from judgegym.datasets.select.options import COLUMNS
from judgegym.datasets.select.rules import AtLeast, Labels, Rule
from judgegym.engine.runs.directory import METRICS, read_settings, run_directory_of
from judgegym.engine.settings.policy import PolicySettings
from judgegym.judges.config.explaining import prompt_digest
from judgegym.judges.config.fields import DeclaredSetting
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.urls import without_credentials
from judgegym.llm.wire import JSON

_LONGEST_VALUE = 200
_COMPARE_RESPONSES = ("listwise", "tournament", "choice")
_SHOWN_BY_ITSELF = ("data", "out", "judge", "judge_model_name", "offline", "openai.model_name")
_POLICY = "openai"
_MODELS = ("judge_model_name", "openai.model_name")


@dataclass(frozen=True, slots=True)
class Origin:
    """How a file was judged.

    Attributes:
        settings: all settings of the run; empty if there is none.
        general: how it was measured, of its `metrics.json`; empty if there is none.
        measured: its metrics.
    """

    settings: Mapping[str, JSON] = field(default_factory=dict)
    general: Mapping[str, JSON] = field(default_factory=dict)
    measured: Mapping[str, JSON] = field(default_factory=dict)

    @classmethod
    def of(cls, scored: Path) -> Origin:
        """Read the run beside a scored file.

        Raises:
            RunDirectoryError: its settings are damaged.
        """
        run = run_directory_of(scored)
        settings = read_settings(run)
        if not settings:
            return cls()
        try:
            metrics = wire.loads((run / METRICS).read_bytes())
        except (OSError, ValueError):  # an unfinished run: nothing is known of it
            metrics = None
        return cls(settings, _part(metrics, "config_general"), _part(_part(metrics, "results"), "all"))

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

    def not_comparable(self, rule: Rule) -> str | None:
        """What to say of a rule that compares scores of different prompts, if the judge gave none that can be."""
        is_across = isinstance(rule, AtLeast | Labels) or rule.min_score is not None
        if not is_across or self.judge not in _COMPARE_RESPONSES:
            return None
        return (
            f"The judge ({self.judge}) compares the responses to one prompt, and its scores of different prompts "
            "cannot be compared, as --threshold and --min_score do; --best, --top and --pairs do not."
        )

    @property
    def model(self) -> str | None:
        """The judge's model; `None` if it is not known, or if a stand-in answered."""
        return None if self.offline else _text(self.settings.get("judge_model_name"))

    @property
    def offline(self) -> bool:
        """Whether a stand-in judged, whose scores mean nothing."""
        return self.settings.get("offline") is True

    @property
    def policy(self) -> str | None:
        """The model that was sampled; `None` if none was, or a stand-in."""
        is_asked = self.settings.get("responses_per_prompt") is not None and not self.offline
        return _text(_part(self.settings, _POLICY).get("model_name")) if is_asked else None

    @property
    def stand_ins(self) -> Sequence[str]:
        """Who was a stand-in, `judge` and `policy`."""
        if not self.offline:
            return ()
        return ("judge",) if self.settings.get("responses_per_prompt") is None else ("judge", "policy")

    @property
    def data(self) -> str | None:
        """What was judged."""
        return _text(self.settings.get("data"))

    @property
    def data_digest(self) -> str | None:
        """The digest of what was judged."""
        datasets = self.general.get("datasets")
        if isinstance(datasets, str) or not isinstance(datasets, Sequence) or len(datasets) != 1:
            return None
        return _text(_part({"it": datasets[0]}, "it").get("digest"))

    def tokens(self, who: str) -> tuple[int, int] | None:
        """Tokens that `judge` or `policy` was sent, and that it has written; `None` if that is not known."""
        found = [self.measured.get(f"eval/{who}_{what}_tokens") for what in ("prompt", "completion")]
        numbers = [each for each in found if isinstance(each, int)]
        return (numbers[0], numbers[1]) if len(numbers) == 2 else None

    def cost(self, who: str) -> float | None:
        """US dollars for `judge` or `policy`; `None` if that is not known."""
        found = self.measured.get(f"eval/{who}_cost_usd")
        return float(found) if isinstance(found, float | int) else None

    def protocol(self) -> Mapping[str, JSON]:
        """The settings that determine the scores, where they differ from the defaults; a long text is its digest."""
        return {
            name: prompt_digest(value) if _is_long(value) else value
            for name, value in _differing(self.settings).items()
            if name not in _SHOWN_BY_ITSELF and name not in ColumnSettings.model_fields and _matters(name)
        }

    def prompt_digests(self) -> Mapping[str, str]:
        """The digests of the judge's prompts, by the setting that replaces them; empty if they are not known."""
        known = _part(self.general, "judge_prompt_digests")
        if known:
            return {name: digest for name, digest in known.items() if isinstance(digest, str)}
        of_judge = {name: self.settings[name] for name in DatasetJudgeSettings.model_fields if name in self.settings}
        try:
            return DatasetJudgeSettings.model_validate(of_judge).prompt_digests() if of_judge else {}
        except ValidationError:  # a run of another version
            return {}

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
    """The settings that differ from the defaults, those of the policy by dotted name; and the models in any case."""
    found = dict(_of_section(settings, ScoreSettings))
    policy = {f"{_POLICY}.{name}": value for name, value in _of_section(_part(settings, _POLICY), PolicySettings)}
    found = {name: value for name, value in found.items() if name != _POLICY} | policy
    models = _MODELS if settings.get("offline") is True else ()
    return {name: value for name, value in found.items() if name not in models}


def _of_section(settings: Mapping[str, JSON], declared: type[BaseModel]) -> Iterator[tuple[str, JSON]]:
    for name, value in settings.items():
        setting = declared.model_fields.get(name)
        if setting is None:
            continue
        default: Any = to_jsonable_python(setting.get_default(call_default_factory=True))
        if value != default or name in ("judge_model_name", "model_name"):
            yield name, value


def _matters(name: str) -> bool:
    section, _, setting = name.rpartition(".")
    return setting == "extra_body" if section else not DeclaredSetting(name, ScoreSettings, name).is_operational


def _part(found: JSON, name: str) -> Mapping[str, JSON]:
    """An object within an object; empty if there is none."""
    part = found.get(name) if isinstance(found, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _is_long(value: JSON) -> TypeGuard[str]:
    return isinstance(value, str) and (len(value) > _LONGEST_VALUE or "\n" in value)


def _word(value: JSON) -> str:
    return without_credentials(value) if isinstance(value, str) else wire.dumps(value).decode()


def _text(value: JSON) -> str | None:
    return value if isinstance(value, str) else None
