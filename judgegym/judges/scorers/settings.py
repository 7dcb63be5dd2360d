"""The settings of a judge of any kind: those of its kind, and of no other.

Judges that are made of judges hold their settings by name, to any depth. What one leaves out is
that of the whole, as far as its kind reads it; a key holds for its own host, prices and limits for
their own model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    cast,
)

from pydantic import AfterValidator, BaseModel, model_validator
from typing_extensions import Self

from judgegym.judges.config.composed import ChoiceHelp, ComposedSettings
from judgegym.judges.config.explaining import TextOrFile, is_prompt_file
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings, PromptLayout, PromptLayoutSettings
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.conversations.shortening import FEWEST_CHARACTERS
from judgegym.judges.core.judge import Confidence, JudgeDefinition, PartsDefinition
from judgegym.judges.parts.cascade import CascadeSettings
from judgegym.judges.parts.composite import CompositeJudgeSettings, TermOptions, check_parts
from judgegym.judges.parts.jury import JurySettings
from judgegym.judges.parts.part import PartFields, PartOptions, check_fields
from judgegym.judges.parts.steps import StepsSettings
from judgegym.judges.prompt_files.file import load_prompt_file
from judgegym.judges.prompt_files.settings import PromptJudgeSettings, parse_path
from judgegym.judges.reward_models.judge import RewardModelSettings
from judgegym.judges.rubrics.prompt import RubricJudgeSettings
from judgegym.judges.scorers.own_kinds import CODE_SETTINGS
from judgegym.judges.scorers.registry import (
    DEFAULT_KIND,
    JUDGES,
    PROMPT_KIND,
    all_kinds,
    check_is_single,
    describe_kinds,
    find_definition,
    is_kind,
    kind_name,
    make_kind_help,
    reads_setting,
)
from judgegym.judges.scorers.sections import check_section, flat_settings
from judgegym.llm.errors import SettingsError

KindT = TypeVar("KindT", bound=JudgeSettings)


def _check_kind(kind: str) -> str:
    find_definition(kind)
    return kind


if TYPE_CHECKING:
    JudgeKind: TypeAlias = str
else:
    JudgeKind = Annotated[Literal[tuple(JUDGES)] | str, AfterValidator(_check_kind)]


class KindSettings(JudgeSettings):
    """Which judge it is, and the criteria of judges that take a text."""

    help_group: ClassVar[str] = "judge"

    judge: JudgeKind = setting(DEFAULT_KIND, describe_kinds(JUDGES), common=True)
    rubric: TextOrFile | None = setting(
        None,
        f"Use this rubric where the data has none (judges "
        f"{', '.join(kind for kind, judge in JUDGES.items() if judge.reads_rubric)}); @file reads "
        "it from a file. "
        "If unset, a general rubric.",
    )
    judge_conversation_limit: int | None = setting(None, ge=FEWEST_CHARACTERS)
    """Shorten a prompt with its response to this many characters for judges that are models: the middle of tools'
    results, of calls' arguments, of earlier turns, never the last turn. The judge is told. If
    unset, there is no limit.
    """


class AnyJudgeSettings(ComposedSettings, KindSettings):
    """A judge of any kind, with the settings of its kind under the names that the environments have.

    >>> AnyJudgeSettings(judge="aspect", aspects="harmfulness", strictness=3).judge_temperature
    0.7
    """

    choosing: ClassVar[tuple[str, ...]] = ("judge",)

    @classmethod
    def choices(cls) -> Mapping[str, type[BaseModel]]:
        """Return the settings of each kind of judge."""
        return {
            f"judge={kind}": judge.group_settings or judge.settings
            for kind, judge in all_kinds().items()
        }

    @classmethod
    def select_choices(cls, values: Mapping[str, Any]) -> Collection[str]:
        """Return the kind of judge, and the kinds of those that it is made of, which have what is set for the whole."""
        kind = _kind(values, cls.model_fields["judge"].default)
        if not is_kind(kind):
            return cls.choices()  # so that nothing but the kind is refused
        return {
            f"judge={chosen_kind}"
            for chosen_kind in (kind, *_iter_part_kinds(kind, values), *cls.kinds_beside(values))
        }

    @classmethod
    def kinds_beside(cls, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield the kinds of further judges that have what is set here, such as the mounts of a server."""
        yield from ()

    @classmethod
    def learn(cls, names: Collection[str]) -> None:
        """Load the kinds that are not built in."""
        for name in names:
            find_definition(name.partition("=")[2])

    @classmethod
    def expand_short_forms(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values with a section `judge`, the path of a prompt file and other names of kinds as flat settings."""
        section = values.get("judge")
        if isinstance(section, Mapping):
            check_section(section, cls)
            values = {
                **flat_settings(section),
                **{name: value for name, value in values.items() if name != "judge"},
            }
        kind = kind_name(values.get("judge"))
        if is_prompt_file(kind) and values.get("judge_prompt") is not None:
            raise ValueError(
                f"judge_prompt: the judge is the prompt file {kind}; expected one of the two"
            )
        if is_prompt_file(kind):
            return {**values, "judge": PROMPT_KIND, "judge_prompt": kind}
        return {**values, "judge": kind} if "judge" in values else dict(values)

    @model_validator(mode="before")
    @classmethod
    def _names_kind(cls, values: Any) -> Any:
        """Who gives the judges of a jury or a cascade need not name the kind."""
        if not isinstance(values, Mapping) or "judge" in values:
            return values
        usual = cls.model_fields["judge"].default
        return values if (kind := _kind(values, usual)) == usual else {**values, "judge": kind}

    @classmethod
    def describe_choice(cls, values: Mapping[str, Any]) -> ChoiceHelp | None:
        """What `--help` says about a kind of judge: its own settings, those of every judge, those of its endpoint.

        Raises:
            ValueError: there is no such kind, or its file cannot be read.
        """
        if "judge" not in values:
            return None
        spelled_out = cls.expand_short_forms(values)
        kind = str(spelled_out["judge"])
        try:
            find_definition(kind)
            if "judge_prompt" in spelled_out:
                load_prompt_file(parse_path(spelled_out["judge_prompt"]))
        except ValueError as error:
            raise ValueError(f"judge: {error}") from None
        return make_kind_help(kind, cls.add_choices((f"judge={kind}",)))

    @property
    def ignored(self) -> Mapping[str, Sequence[str]]:
        """The settings that neither this judge nor one that it is made of reads."""
        assert self.composed is not None
        names = [
            name
            for name in KindSettings.model_fields
            if not self.composed[1] & {*self.readers(name)}
        ]
        return {**super().ignored, **dict.fromkeys(names, (f"judge={self.judge}",))}

    @classmethod
    def readers(cls, name: str) -> list[str]:
        """Return the choices with which a setting is read; a part has the settings that are given for the whole."""
        other_choices = [
            choice for choice in super().readers(name) if not choice.startswith("judge=")
        ]
        return [
            *(f"judge={kind}" for kind in all_kinds() if reads_setting(kind, name)),
            *other_choices,
        ]

    @property
    def definition(self) -> JudgeDefinition:
        """The kind of judge."""
        return find_definition(self.judge)

    def match_settings(self, settings: type[KindT]) -> KindT | None:
        """These settings, if they are those of a judge of this kind; else `None`."""
        return (
            self
            if issubclass(self.definition.settings, settings) and isinstance(self, settings)
            else None
        )

    @property
    def asks_endpoint(self) -> bool:
        """Whether a judge of this kind, or that of any part of a reward, asks a model."""
        return any(find_definition(kind).asks_endpoint for kind in self.kinds)

    @cached_property
    def part_settings(self) -> list[PartSettings]:
        """The parts of a judge made of judges, each with the settings that it leaves out from those of the whole.

        Raises:
            ValueError: a part has an unknown or wrong setting, or a judge that may not be one.
        """
        parts = self.definition.parts
        if parts is None:
            return []
        members: Mapping[str, PartFields] = getattr(self, parts.setting)
        return [_make_part_settings(self, parts, name, fields) for name, fields in members.items()]

    @property
    def kinds(self) -> list[str]:
        """The kinds of judges that judge: this one, or those that it is made of."""
        if self.definition.parts is None:
            return [self.judge]
        return [kind for part in self.part_settings for kind in part.settings.kinds]

    @property
    def part_names(self) -> list[str]:
        """The names of the parts of a judge that is made of judges; empty for others, and for steps, as rows differ."""
        parts = self.definition.parts
        return (
            []
            if parts is None or self.match_settings(StepsSettings)
            else list(getattr(self, parts.setting))
        )

    @property
    def is_jury(self) -> bool:
        """Whether the members of a jury judge."""
        return self.match_settings(JurySettings) is not None

    @property
    def shown_fields(self) -> frozenset[str]:
        """The fields of a task that the judge is shown; of a reward of several parts, that any part is shown."""
        if self.definition.parts is not None:
            return frozenset(
                name for part in self.part_settings for name in part.settings.shown_fields
            )
        prompt = self.match_settings(PromptJudgeSettings)
        shown = self.definition.fields
        return (
            shown if prompt is None or prompt.judge_prompt is None else shown & prompt.shown_names
        )

    def judge_name(self) -> str:
        """Who judges; of a judge that is made of judges, if it has no model of its own, who each is."""
        if self.definition.parts is not None and "judge_model_name" not in self.model_fields_set:
            return "+".join(
                dict.fromkeys(part.settings.judge_name() for part in self.part_settings)
            )
        return self.definition.settings.judge_name(self)

    def prompt_digests(self) -> dict[str, str]:
        """Digests of the prompts of a judge of this kind."""
        return self.definition.settings.prompt_digests(self)

    def vote_count(self) -> int:
        """Return the number of votes that a judge of this kind takes."""
        return self.definition.settings.vote_count(self)

    def default_layout(self) -> PromptLayout:
        """Return the layout of the prompt if none is chosen."""
        settings: Any = self.definition.settings
        return (
            settings.default_layout(self)
            if self.match_settings(PromptLayoutSettings)
            else "published"
        )

    def built_in_prompt(self) -> str:
        """Return the built-in prompt of a judge of this kind; of one that is made of judges, those of all."""
        if self.definition.parts is not None:
            return "\n".join(part.settings.built_in_prompt() for part in self.part_settings)
        return self.definition.settings.built_in_prompt(self)

    @property
    def client_settings(self) -> JudgeSettings:
        """Those of the first part that asks a model."""
        parts = (part.settings for part in self.part_settings)
        return next((settings for settings in parts if settings.asks_endpoint), self)

    @model_validator(mode="after")
    def _has_usable_parts(self) -> Self:
        # What files hold takes the place of their names, so that a run is not resumed with
        # something else.
        if self.definition.parts is None:
            return self
        parts, setting_name = self.part_settings, self.definition.parts.setting
        composite, cascade = (
            self.match_settings(CompositeJudgeSettings),
            self.match_settings(CascadeSettings),
        )
        if composite is not None:
            check_parts(
                {part.name: cast(TermOptions, part.options) for part in parts}, composite.combine
            )
        elif not parts:
            raise ValueError(
                f"{setting_name}: expected judges, such as [{{judge_model_name: a}}, …], or names "
                "of models"
            )
        for name, _, settings in parts:
            fields = getattr(self, setting_name)[name]
            file_fields = {
                field
                for field, value in fields.items()
                if isinstance(value, str) and value.startswith("@")
            }
            file_fields |= {"rule_digest", *CODE_SETTINGS} & {*type(settings).model_fields}
            if settings.match_settings(PromptJudgeSettings):
                file_fields |= {"judge", "judge_prompt"}
            fields |= settings.model_dump(mode="json", include=file_fields, exclude_none=True)
        if cascade is not None:
            _check_confidence(cascade.cascade_confidence, parts[0].settings)
        return self


def _check_confidence(confidence: Confidence, cheap: AnyJudgeSettings) -> None:
    """Check that the cheap judge of a cascade knows how sure it is: else every row would be escalated.

    Raises:
        ValueError: it does not.
    """
    if confidence != "margin" and confidence not in cheap.definition.confidences:
        kinds = [kind for kind, judge in JUDGES.items() if confidence in judge.confidences]
        raise ValueError(
            f"cascade_confidence: {confidence} is of {' and '.join(kinds)}; the first is "
            f"{cheap.judge}"
        )
    rubric, jury = (
        cheap.match_settings(RubricJudgeSettings) or cheap.match_settings(PromptJudgeSettings),
        cheap.match_settings(JurySettings),
    )
    if rubric is not None and confidence == "votes" and rubric.samples_per_item < 2:
        raise ValueError(
            "cascade_confidence: votes needs samples_per_item of 2 or more of the first judge"
        )
    if rubric is not None and confidence == "probability" and rubric.weighting != "logprobs":
        raise ValueError(
            "cascade_confidence: probability needs weighting=logprobs of the first judge"
        )
    members = cheap.part_settings if jury is None or jury.jury_scale == "own" else []
    for settings in (cheap, *(part.settings for part in members)):
        reward = settings.match_settings(RewardModelSettings)
        if reward is not None and reward.reward_scale != "sigmoid":
            raise ValueError(
                f"cascade_confidence: {confidence} is of scores from 0 to 1: set "
                "reward_scale=sigmoid"
            )


class PartSettings(NamedTuple):
    """A part of a judge that is made of judges: its name, what it does there, and the settings of its judge."""

    name: str
    options: PartOptions
    settings: AnyJudgeSettings


def _make_part_settings(
    whole: AnyJudgeSettings, parts: PartsDefinition, name: str, fields: PartFields
) -> PartSettings:
    prefix, options = f"{parts.setting}.{name}.", parts.options.model_fields
    try:
        values = _part_values(fields, parts)
    except ValueError as error:
        raise ValueError(f"{prefix}{error}") from None
    check_is_single(values["judge"], f"{prefix}judge", baselines=True)
    check_fields(prefix, values)
    part_type = AnyJudgeSettings.select_class(values)
    inherited = part_type.model_fields.keys() - _list_composed_settings()
    try:
        part_options = settings_from_keywords(
            parts.options, {n: fields[n] for n in options if n in fields}, prefix=prefix
        )
        merged = whole.fill_in(values, inherited)
        settings = settings_from_keywords(part_type, merged, prefix=prefix, others=options)
    except SettingsError as error:
        raise ValueError(str(error)) from None
    ignored = next((field for field in settings.ignored if field in values), None)
    if ignored is not None:
        raise ValueError(
            f"{prefix}{ignored}: a judge of the kind {settings.judge} does not read it"
        )
    return PartSettings(name, part_options, settings)


def _part_values(fields: PartFields, parts: PartsDefinition) -> dict[str, Any]:
    """Return the settings of a part's judge, with its kind."""
    judge = {
        name: value for name, value in fields.items() if name not in parts.options.model_fields
    }
    values = AnyJudgeSettings.expand_short_forms(flat_settings(judge))
    return {"judge": _kind(values, parts.default_kind), **values}


def _list_composed_settings() -> frozenset[str]:
    """Return the settings of judges that are made of judges, which those do not inherit."""
    settings_types = [judge.settings for judge in all_kinds().values() if judge.parts is not None]
    return frozenset(
        (
            "judge",
            *CODE_SETTINGS,
            *(name for settings in settings_types for name in settings.__annotations__),
        )
    )


def _kind(values: Mapping[str, Any], default: str | None) -> Any:
    """Return the kind of judge; who gives the judges of a jury, a cascade or steps need not name it."""
    if "judge" in values:
        return values["judge"]
    kinds = [
        kind
        for kind, judge in JUDGES.items()
        if judge.parts is not None
        and judge.parts.default_kind is not None
        and values.get(judge.parts.setting)
    ]
    return kinds[0] if len(kinds) == 1 else default


def find_named_definition(values: Mapping[str, Any]) -> JudgeDefinition | None:
    """The kind of judge that settings name which are not validated yet; `None` if they name none that is known."""
    try:
        kind = _kind(AnyJudgeSettings.expand_short_forms(values), DEFAULT_KIND)
    except ValueError:
        return None  # said where the settings are validated
    return find_definition(kind) if is_kind(kind) else None


def _iter_part_kinds(kind: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the kinds of the judges that one is made of, to any depth, but of none that is made of judges itself."""
    parts = find_definition(kind).parts
    if parts is None:
        return
    default = find_definition(kind).settings.model_fields[parts.setting].default
    try:
        members = parts.read(values.get(parts.setting, default))
    except ValueError:
        return  # said where the settings are validated
    for fields in members.values() if isinstance(members, Mapping) else ():
        if not isinstance(fields, Mapping):
            continue
        try:
            part_values = _part_values(fields, parts)
        except ValueError:
            continue  # said where the settings are validated
        part_kind = part_values["judge"]
        if is_kind(part_kind):
            yield from (
                _iter_part_kinds(part_kind, part_values)
                if find_definition(part_kind).parts
                else (part_kind,)
            )
