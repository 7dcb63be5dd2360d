"""The settings of a judge of any kind: those of its own kind only.

Composed judges hold the settings of their parts by name, to any depth. A part inherits unset
settings from the whole, if its kind reads them; keys are inherited only for the same host, prices
and limits only for the same model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
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

from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.checklists.prompt import ChecklistJudgeSettings
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
from judgegym.judges.prompt_files.card import load_card
from judgegym.judges.prompt_files.file import load_prompt_file, read_source
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
    """The kind of judge, and the criteria of judges that take a text."""

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
    """Shorten a prompt with its response to this many characters for judges that are models: in the
    middle of tool results, call arguments and earlier turns, never the last turn. The judge is told
    about it. No limit if unset. """


class AnyJudgeSettings(ComposedSettings, KindSettings):
    """Settings of a judge of any kind, under the names that environments use.

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
        """Return the kind of judge, and the kinds of its parts.

        The parts' settings may be set for the whole.
        """
        kind = _kind(values, cls.model_fields["judge"].default)
        if not is_kind(kind):
            return cls.choices()  # so that only the kind is refused
        return {
            f"judge={chosen_kind}"
            for chosen_kind in (kind, *_iter_part_kinds(kind, values), *cls.kinds_beside(values))
        }

    @classmethod
    def kinds_beside(cls, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield the kinds of further judges that inherit from these, such as a server's mounts."""
        yield from ()

    @classmethod
    def learn(cls, names: Collection[str]) -> None:
        """Load the kinds that are not built in."""
        for name in names:
            find_definition(name.partition("=")[2])

    @classmethod
    def expand_short_forms(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values with short forms as flat settings.

        Short forms are a section `judge`, the path of a prompt file, and aliases of kinds.
        """
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
            return cls._expand_file({**values, "judge": PROMPT_KIND, "judge_prompt": kind})
        if kind == PROMPT_KIND and is_prompt_file(values.get("judge_prompt")):
            return cls._expand_file({**values, "judge": kind})
        if "judge" in values:
            return {**values, "judge": kind}
        return dict(values)

    @classmethod
    def _expand_file(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values with the settings of a card, which any other value replaces."""
        path = parse_path(values["judge_prompt"])
        if not _is_card(path):
            return values
        card = load_card(path)
        try:
            check_section(card.section, cls)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if card.prompt_file is None:
            values = {name: values[name] for name in values.keys() - {"judge", "judge_prompt"}}
        return {**flat_settings(card.section), **values}

    @model_validator(mode="before")
    @classmethod
    def _names_kind(cls, values: Any) -> Any:
        """Infer the kind if only the parts of a jury or a cascade are given."""
        if not isinstance(values, Mapping) or "judge" in values:
            return values
        usual = cls.model_fields["judge"].default
        if (kind := _kind(values, usual)) == usual:
            return values
        return {**values, "judge": kind}

    @classmethod
    def describe_choice(cls, values: Mapping[str, Any]) -> ChoiceHelp | None:
        """Return the help of a kind: its settings, those of every judge, and its endpoint's.

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
        """The settings that neither this judge nor one of its parts reads."""
        assert self.composed is not None
        names = [
            name
            for name in KindSettings.model_fields
            if not self.composed[1] & {*self.readers(name)}
        ]
        return {**super().ignored, **dict.fromkeys(names, (f"judge={self.judge}",))}

    @classmethod
    def readers(cls, name: str) -> list[str]:
        """Return the choices that read a setting; parts read settings given for the whole."""
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
        """Return these settings if they are of this kind; else `None`."""
        if issubclass(self.definition.settings, settings) and isinstance(self, settings):
            return self
        return None

    @property
    def asks_endpoint(self) -> bool:
        """Whether this judge, or any part of it, calls a model."""
        return any(find_definition(kind).asks_endpoint for kind in self.kinds)

    @cached_property
    def part_settings(self) -> list[PartSettings]:
        """The parts of a composed judge, with settings inherited from the whole.

        Raises:
            ValueError: a part has an unknown or wrong setting, or a kind that cannot be a part.
        """
        parts = self.definition.parts
        if parts is None:
            return []
        members: Mapping[str, PartFields] = getattr(self, parts.setting)
        return [_make_part_settings(self, parts, name, fields) for name, fields in members.items()]

    @property
    def kinds(self) -> list[str]:
        """The kinds of judges that call models: this one, or those of its parts."""
        if self.definition.parts is None:
            return [self.judge]
        return list(chain.from_iterable(part.settings.kinds for part in self.part_settings))

    @property
    def part_names(self) -> list[str]:
        """The names of a composed judge's parts.

        Empty for other judges, and for steps, whose parts differ by row.
        """
        parts = self.definition.parts
        if parts is None or self.match_settings(StepsSettings):
            return []
        return list(getattr(self, parts.setting))

    @property
    def is_jury(self) -> bool:
        """Whether it is a jury."""
        return self.match_settings(JurySettings) is not None

    @property
    def shown_fields(self) -> frozenset[str]:
        """The fields of a task that the judge, or any part of it, is shown."""
        if self.definition.parts is not None:
            fields_of_parts = (part.settings.shown_fields for part in self.part_settings)
            return frozenset(chain.from_iterable(fields_of_parts))
        prompt = self.match_settings(PromptJudgeSettings)
        shown = self.definition.fields
        if prompt is None or prompt.judge_prompt is None:
            return shown
        return shown & prompt.shown_names

    def judge_name(self) -> str:
        """Return who judges.

        For a composed judge without a model of its own, the names of its parts.
        """
        if self.definition.parts is not None and "judge_model_name" not in self.model_fields_set:
            return "+".join(
                dict.fromkeys(part.settings.judge_name() for part in self.part_settings)
            )
        return self.definition.settings.judge_name(self)

    def prompt_digests(self) -> dict[str, str]:
        """Return digests of the prompts of a judge of this kind."""
        return self.definition.settings.prompt_digests(self)

    def vote_count(self) -> int:
        """Return the number of votes of a judge of this kind."""
        return self.definition.settings.vote_count(self)

    def default_layout(self) -> PromptLayout:
        """Return the layout of the prompt if none is chosen."""
        if not self.match_settings(PromptLayoutSettings):
            return "published"
        settings: Any = self.definition.settings
        layout: PromptLayout = settings.default_layout(self)
        return layout

    def built_in_prompt(self) -> str:
        """Return the built-in prompt; for a composed judge those of all parts."""
        if self.definition.parts is not None:
            return "\n".join(part.settings.built_in_prompt() for part in self.part_settings)
        return self.definition.settings.built_in_prompt(self)

    @property
    def client_settings(self) -> JudgeSettings:
        """The settings of the first part that calls a model."""
        parts = (part.settings for part in self.part_settings)
        return next((settings for settings in parts if settings.asks_endpoint), self)

    @model_validator(mode="after")
    def _has_usable_parts(self) -> Self:
        # File contents replace file names, so that a run is not resumed with other contents.
        if self.definition.parts is None:
            return self
        parts, setting_name = self.part_settings, self.definition.parts.setting
        composite = self.match_settings(CompositeJudgeSettings)
        cascade = self.match_settings(CascadeSettings)
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
            replace_card(fields)
            texts = {field: value for field, value in fields.items() if isinstance(value, str)}
            file_fields = {field for field, text in texts.items() if text.startswith("@")}
            file_fields |= {"rule_digest", *CODE_SETTINGS} & {*type(settings).model_fields}
            if settings.match_settings(PromptJudgeSettings):
                file_fields |= {"judge", "judge_prompt"}
            fields |= settings.model_dump(mode="json", include=file_fields, exclude_none=True)
        if cascade is not None:
            _check_confidence(cascade.cascade_confidence, parts[0].settings)
        return self


_TYPED_KINDS = (AspectJudgeSettings, ChecklistJudgeSettings)
"""The kinds whose verdict has a probability only with a decision model."""


def _check_confidence(confidence: Confidence, cheap: AnyJudgeSettings) -> None:
    """Check that a cascade's cheap judge has the confidence; else every row would escalate.

    Raises:
        ValueError: it does not have it.
    """
    if confidence != "margin" and confidence not in cheap.definition.confidences:
        kinds = [kind for kind, judge in JUDGES.items() if confidence in judge.confidences]
        kind_list = " or ".join(kinds)
        raise ValueError(
            f"cascade_confidence: {confidence} needs {kind_list}; the first judge is {cheap.judge}"
        )
    rubric = cheap.match_settings(RubricJudgeSettings) or cheap.match_settings(PromptJudgeSettings)
    jury = cheap.match_settings(JurySettings)
    if rubric is not None and confidence == "votes" and rubric.samples_per_item < 2:
        raise ValueError(
            "cascade_confidence: votes needs samples_per_item of 2 or more of the first judge"
        )
    is_decision = cheap.judge_api == "decisions"
    needs_decision = confidence == "probability" and not is_decision
    if rubric is not None and needs_decision and rubric.weighting != "logprobs":
        raise ValueError(
            "cascade_confidence: probability needs weighting=logprobs of the first judge, or "
            "judge_api=decisions"
        )
    if needs_decision and any(cheap.match_settings(kind) is not None for kind in _TYPED_KINDS):
        raise ValueError(
            "cascade_confidence: probability needs judge_api=decisions of the first judge"
        )
    if is_decision and confidence == "votes":
        raise ValueError(
            "cascade_confidence: a decision model has no votes; expected margin or probability"
        )
    if jury is None or jury.jury_scale == "own":
        members = cheap.part_settings
    else:
        members = []
    for settings in (cheap, *(part.settings for part in members)):
        reward = settings.match_settings(RewardModelSettings)
        if reward is not None and reward.reward_scale != "sigmoid":
            raise ValueError(
                f"cascade_confidence: {confidence} needs scores from 0 to 1: set "
                "reward_scale=sigmoid"
            )


def _is_card(path: Path) -> bool:
    """Return whether a file has the settings of a judge beside a prompt, or in place of one."""
    try:
        return "judge" in read_source(path).values
    except ValueError:
        return False  # the validation of judge_prompt explains it


def replace_card(values: dict[str, Any]) -> None:
    """Put the settings of a card in the place of its name, so that a run's record holds them.

    Args:
        values: settings of a part, or of a gold judge; without a card they stay as they are.
    """
    flat = flat_settings(values)
    kind = kind_name(flat.get("judge"))
    path = kind if is_prompt_file(kind) else flat.get("judge_prompt")
    if is_prompt_file(path) and _is_card(parse_path(path)):
        values.clear()
        values.update(AnyJudgeSettings.expand_short_forms(flat))


class PartSettings(NamedTuple):
    """A part of a composed judge: its name, its options, and the settings of its judge."""

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
    """Return the settings of composed judges, which their parts do not inherit."""
    names = {"judge", *CODE_SETTINGS}
    for judge in all_kinds().values():
        if judge.parts is not None:
            names.update(judge.settings.__annotations__)
    return frozenset(names)


def _kind(values: Mapping[str, Any], default: str | None) -> Any:
    """Return the kind of judge, or infer it from the parts of a jury, cascade or steps."""
    if "judge" in values:
        return values["judge"]
    kinds: list[str] = []
    for kind, judge in JUDGES.items():
        parts = judge.parts
        if parts is None or parts.default_kind is None:
            continue
        if values.get(parts.setting):
            kinds.append(kind)
    if len(kinds) == 1:
        return kinds[0]
    return default


def find_named_definition(values: Mapping[str, Any]) -> JudgeDefinition | None:
    """Return the kind that unvalidated settings name; `None` without a known one."""
    try:
        kind = _kind(AnyJudgeSettings.expand_short_forms(values), DEFAULT_KIND)
    except ValueError:
        return None  # reported when the settings are validated
    if is_kind(kind):
        return find_definition(kind)
    return None


def _iter_part_kinds(kind: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the kinds of a judge's parts, to any depth, without composed ones."""
    parts = find_definition(kind).parts
    if parts is None:
        return
    default = find_definition(kind).settings.model_fields[parts.setting].default
    try:
        members = parts.read(values.get(parts.setting, default))
    except ValueError:
        return  # reported when the settings are validated
    for fields in members.values() if isinstance(members, Mapping) else ():
        if not isinstance(fields, Mapping):
            continue
        try:
            part_values = _part_values(fields, parts)
        except ValueError:
            continue  # reported when the settings are validated
        part_kind = part_values["judge"]
        if is_kind(part_kind):
            if find_definition(part_kind).parts:
                yield from _iter_part_kinds(part_kind, part_values)
            else:
                yield part_kind
