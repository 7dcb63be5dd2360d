"""The kinds of judges: one line in `JUDGES` for each, and all that commands know of them.

A further judge is a module with its settings, prompt, parser, case and judge, and a `JudgeDefinition`; with its line
here `score`, the server, plans and `--help` have it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, cast

from pydantic import BaseModel, field_validator, model_validator
from typing_extensions import Self

from judgegym.judges import pairwise, peers
from judgegym.judges.aspects import judge as aspects
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.checklists import judge as checklists
from judgegym.judges.checklists.prompt import ChecklistJudgeSettings
from judgegym.judges.config.batches import with_batch
from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.config.explaining import TextOrFile, is_prompt_file, name_prompt_file
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings, PromptLayout, PromptLayoutSettings
from judgegym.judges.config.sources import LoadedSettings, SettingsT, settings_from_keywords
from judgegym.judges.conversations.shortening import FEWEST_CHARACTERS
from judgegym.judges.core.judge import JudgeDefinition, SingleJudge
from judgegym.judges.core.judgment import Scale
from judgegym.judges.core.tasks import TaskJudge
from judgegym.judges.listwise import judge as listwise
from judgegym.judges.listwise.prompt import ListwiseJudgeSettings
from judgegym.judges.pairwise import ChoiceJudgeSettings
from judgegym.judges.parts.cascade import KINDS_OF_CONFIDENCE, CascadeJudge, CascadeSettings
from judgegym.judges.parts.composite import CompositeJudge, CompositeJudgeSettings, TermOptions, check_parts
from judgegym.judges.parts.jury import JuryJudge, JurySettings
from judgegym.judges.parts.part import Part, PartFields, PartOptions, check_fields
from judgegym.judges.parts.steps import StepsJudge, StepsSettings
from judgegym.judges.peers import PeerJudgeSettings
from judgegym.judges.prompt_files import judge as prompt_files
from judgegym.judges.prompt_files.settings import PromptJudgeSettings
from judgegym.judges.reward_models import judge as reward_models
from judgegym.judges.reward_models.judge import RewardModelSettings
from judgegym.judges.rubrics import judge as rubrics
from judgegym.judges.rubrics.prompt import RubricJudgeSettings
from judgegym.judges.rules import judge as rules
from judgegym.judges.rules.settings import RuleSettings
from judgegym.judges.tournament import progress as tournament
from judgegym.judges.tournament.schedule import TournamentSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError

logger = logging.getLogger(__name__)


class _Made(NamedTuple):
    """A kind of judge that is made of judges.

    Attributes:
        field: the setting that holds them.
        options: what each has beside the settings of its judge.
        usual: the kind of one that names none; `None` if each has to.
        of: the kinds that are made of judges themselves and may be among them.
        judge: opens it.
    """

    field: str
    options: type[PartOptions]
    usual: str | None
    of: tuple[str, ...]
    judge: Callable[[Any, ChatClient, Sequence[Part[Any]]], SingleJudge[Any, Any]]


COMPOSITE, PROMPT = "composite", "prompt"
MADE_OF_JUDGES: Mapping[str, _Made] = {
    COMPOSITE: _Made("reward", TermOptions, None, ("jury", "cascade", "steps"), CompositeJudge),
    "jury": _Made("judges", PartOptions, "rubric", (), JuryJudge),
    "cascade": _Made("cascade", PartOptions, "rubric", ("jury",), CascadeJudge),
    "steps": _Made("steps_judge", PartOptions, "rubric", ("jury", "cascade"), StepsJudge),
}
"""The kinds of judges that are made of judges."""


def _open_made(settings: ScorerSettings, client: ChatClient, rubric: str | None) -> SingleJudge[Any, Any]:
    """Open a judge that is made of judges, each with a client of its own where it has its own endpoint."""
    parts = tuple(_open_part(settings, part, client) for part in part_settings(settings))
    return MADE_OF_JUDGES[settings.judge].judge(settings, client, parts)


JUDGES: Mapping[str, JudgeDefinition] = {
    "rubric": rubrics.JUDGE,
    "aspect": aspects.JUDGE,
    "checklist": checklists.JUDGE,
    "peer": peers.JUDGE,
    "arena_hard": tournament.ARENA_JUDGE,
    "choice": pairwise.JUDGE,
    "listwise": listwise.JUDGE,
    "tournament": tournament.JUDGE,
    "reward_model": reward_models.JUDGE,
    "rule": rules.JUDGE,
    PROMPT: prompt_files.JUDGE,
    COMPOSITE: JudgeDefinition(
        CompositeJudgeSettings, "several parts, each a judge or a rule (--reward)", _open_made, ()
    ),
    "jury": JudgeDefinition(JurySettings, "several judges, whose scores make one (--judges)", _open_made, ()),
    "cascade": JudgeDefinition(
        CascadeSettings, "a cheap judge, and a strong one where it is unsure (--cascade)", _open_made, ()
    ),
    "steps": JudgeDefinition(StepsSettings, "each step of an agent's trace (--steps_judge)", _open_made, ()),
}
"""The kinds of judges, by their names after `--judge`."""

TASK_FIELDS: Mapping[str, frozenset[str]] = {
    name: frozenset(kind for kind, judge in JUDGES.items() if name in judge.fields)
    for name in ("reference", "rubric", "aspects", "baseline", "context", "criteria")
}
"""The fields of a task beside prompt and responses, and the judges that are shown each of them."""
MOST_TOGETHER: Mapping[str, int] = {
    kind: judge.most_together for kind, judge in JUDGES.items() if judge.most_together is not None
}
"""The most responses that a judge which compares them takes together."""
SINGLE = tuple(kind for kind in JUDGES if kind not in MOST_TOGETHER)
"""The judges that see each response by itself."""


def scale_of(kind: str, settings: JudgeSettings) -> Scale | None:
    """The scale of a judge's raw scores; `None` for judges which have no levels, or those of each row."""
    if kind == PROMPT and isinstance(settings, PromptJudgeSettings):
        return settings.prompt_file.labels.scale
    return settings.scale if kind == "rubric" and isinstance(settings, RubricJudgeSettings) else None


def scale_in_words(kind: str, scale: Scale) -> str:
    """A judge's scale, and what sets it, for messages."""
    return f"{scale.low} to {scale.high} ({'the prompt file' if kind == PROMPT else '--scale_min, --scale_max'})"


def shown_fields(settings: ScorerSettings) -> frozenset[str]:
    """The fields of a task that the judge is shown; of a reward of several parts, that any part is shown."""
    if settings.judge in MADE_OF_JUDGES:
        return frozenset(name for part in part_settings(settings) for name in shown_fields(part.settings))
    shown = JUDGES[settings.judge].fields
    return shown & settings.shown_names if settings.judge == PROMPT and settings.judge_prompt is not None else shown


def about(kinds: Collection[str]) -> str:
    """What the setting `judge` does, for `--help`."""
    return f"Judge in this way. {'. '.join(f'{kind}: {JUDGES[kind].about}' for kind in kinds)}."


if TYPE_CHECKING:
    JudgeKind: TypeAlias = str
    SingleKind: TypeAlias = str

    class _SettingsOfAll(
        TournamentSettings,
        AspectJudgeSettings,
        ChecklistJudgeSettings,
        ChoiceJudgeSettings,
        CascadeSettings,
        CompositeJudgeSettings,
        JurySettings,
        ListwiseJudgeSettings,
        PeerJudgeSettings,
        PromptJudgeSettings,
        RewardModelSettings,
        RubricJudgeSettings,
        RuleSettings,
        StepsSettings,
    ):
        """The settings of all kinds."""
else:
    JudgeKind = Literal[tuple(JUDGES)]
    SingleKind = Literal[SINGLE]
    _found = [judge.settings for judge in reversed(JUDGES.values())]
    _bases = [one for one in _found if not any(one in other.__mro__[1:] for other in _found)]
    _SettingsOfAll = type("_SettingsOfAll", tuple(_bases), {"__module__": __name__})


class KindSettings(BaseModel, use_attribute_docstrings=True):
    """Which judge it is, and the criteria of judges that take a text."""

    help_group: ClassVar[str] = "judge"

    judge: JudgeKind = setting("rubric", about(JUDGES), common=True)
    rubric: TextOrFile | None = setting(
        None,
        f"Use this rubric where the data has none (judges "
        f"{', '.join(kind for kind, judge in JUDGES.items() if judge.reads_rubric)}); @file reads it from a file. "
        "If unset, a general rubric.",
    )
    judge_conversation_limit: int | None = setting(None, ge=FEWEST_CHARACTERS)
    """Shorten a prompt with its response to this many characters for judges that are models: the middle of tools'
    results, of calls' arguments, of earlier turns, never the last turn. The judge is told. If unset, there is no limit.
    """

    @field_validator("judge", mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        """`arena` is Arena-Hard's judge, whatever the benchmark's name."""
        return "arena_hard" if value == "arena" else value


class ScorerSettings(_SettingsOfAll, KindSettings):
    """A judge: its kind, and the settings of all kinds under the names that the environments have.

    >>> ScorerSettings(judge="aspect", aspects="harmfulness", strictness=3).judge_temperature
    0.7
    """

    @property
    def asks_endpoint(self) -> bool:
        """Whether a judge of this kind, or that of any part of a reward, asks a model."""
        return any(kind not in JUDGES or JUDGES[kind].asks_endpoint for kind in self.kinds)

    @property
    def kinds(self) -> list[str]:
        """The kinds of judges that judge: this one, or those that it is made of."""
        if self.judge not in MADE_OF_JUDGES:
            return [self.judge]
        return [kind for part in part_settings(self) for kind in part.settings.kinds]

    @property
    def part_names(self) -> list[str]:
        """The names of the parts of a judge that is made of judges; empty for others, and for steps, as rows differ."""
        made = MADE_OF_JUDGES.get(self.judge)
        return [] if made is None or self.judge == "steps" else list(getattr(self, made.field))

    @property
    def is_jury(self) -> bool:
        """Whether the members of a jury judge."""
        return self.judge == "jury"

    def judge_name(self) -> str:
        """Who judges; of a judge that is made of judges, if it has no model of its own, who each is."""
        if self.judge in MADE_OF_JUDGES and "judge_model_name" not in self.model_fields_set:
            return "+".join(dict.fromkeys(part.settings.judge_name() for part in part_settings(self)))
        return JUDGES[self.judge].settings.judge_name(self)

    def prompt_digests(self) -> dict[str, str]:
        """Digests of the prompts of a judge of this kind."""
        return JUDGES[self.judge].settings.prompt_digests(self)

    def vote_count(self) -> int:
        """The number of votes that a judge of this kind takes."""
        return JUDGES[self.judge].settings.vote_count(self)

    def usual_layout(self) -> PromptLayout:
        """The layout of the prompt if none is chosen."""
        own = JUDGES[self.judge].settings
        return own.usual_layout(self) if issubclass(own, PromptLayoutSettings) else "published"

    def built_in_prompt(self) -> str:
        """The built-in prompt of a judge of this kind; of one that is made of judges, those of all."""
        if self.judge in MADE_OF_JUDGES:
            return "\n".join(part.settings.built_in_prompt() for part in part_settings(self))
        return JUDGES[self.judge].settings.built_in_prompt(self)

    @property
    def client_settings(self) -> JudgeSettings:
        """Those of the first part that asks a model."""
        parts = (part.settings for part in part_settings(self))
        return next((settings for settings in parts if settings.asks_endpoint), self)

    @model_validator(mode="after")
    def _has_usable_parts(self) -> Self:
        # What files hold takes the place of their names, so that a run is not resumed with something else.
        made = MADE_OF_JUDGES.get(self.judge)
        if made is None:
            return self
        parts = part_settings(self)
        if self.judge == COMPOSITE:
            check_parts({part.name: cast(TermOptions, part.options) for part in parts}, self.combine)
        elif not parts:
            raise ValueError(f"{made.field}: expected judges, such as [{{judge_model_name: a}}, …], or names of models")
        for name, _, settings in parts:
            fields = getattr(self, made.field)[name]
            of_files = {field for field, value in fields.items() if isinstance(value, str) and value.startswith("@")}
            of_files |= {"rule_digest"} if settings.rule_digest is not None else set()
            if settings.judge == PROMPT:
                of_files |= {"judge", "judge_prompt"}
            fields |= settings.model_dump(mode="json", include=of_files)
        if self.judge == "cascade":
            self._check_confidence(parts[0].settings)
        return self

    def _check_confidence(self, cheap: ScorerSettings) -> None:
        """Check that the cheap judge of a cascade knows how sure it is: else every row would be escalated.

        Raises:
            ValueError: it does not.
        """
        wanted = self.cascade_confidence
        kinds = KINDS_OF_CONFIDENCE.get(wanted, (cheap.judge,))
        if cheap.judge not in kinds:
            raise ValueError(f"cascade_confidence: {wanted} is of {' and '.join(kinds)}; the first is {cheap.judge}")
        if wanted == "votes" and cheap.judge in ("rubric", PROMPT) and cheap.samples_per_item < 2:
            raise ValueError("cascade_confidence: votes needs samples_per_item of 2 or more of the first judge")
        if wanted == "probability" and cheap.weighting != "logprobs":
            raise ValueError("cascade_confidence: probability needs weighting=logprobs of the first judge")
        judging = [cheap, *(part.settings for part in part_settings(cheap) if cheap.jury_scale == "own")]
        if any(one.judge == "reward_model" and one.reward_scale != "sigmoid" for one in judging):
            raise ValueError(f"cascade_confidence: {wanted} is of scores from 0 to 1: set reward_scale=sigmoid")

    @model_validator(mode="before")
    @classmethod
    def _is_of_the_kind_that_has_judges(cls, values: object) -> object:
        """Who gives judges of a jury or a cascade need not name the kind; the path of a prompt file is a judge, too."""
        if not isinstance(values, dict):
            return values
        values = name_prompt_file(values)
        if is_prompt_file(values.get("judge")):
            raise ValueError(f"judge_prompt: the judge is the prompt file {values['judge']}; expected one of the two")
        if "judge" in values:
            return values
        given = [kind for kind, made in MADE_OF_JUDGES.items() if kind != COMPOSITE and values.get(made.field)]
        return {**values, "judge": given[0]} if len(given) == 1 else values


class PartSettings(NamedTuple):
    """A part of a judge that is made of judges: its name, what it does there, and the settings of its judge."""

    name: str
    options: PartOptions
    settings: ScorerSettings


def part_settings(settings: ScorerSettings) -> list[PartSettings]:
    """The parts of a judge that is made of judges, each with the settings that it leaves out from those of the whole.

    Raises:
        ValueError: a part has an unknown or wrong setting, or a judge that may not be one.
    """
    made = MADE_OF_JUDGES.get(settings.judge)
    if made is None:
        return []
    given: Mapping[str, PartFields] = getattr(settings, made.field)
    return [_part(settings, made, name, fields) for name, fields in given.items()]


def _part(whole: ScorerSettings, made: _Made, name: str, fields: PartFields) -> PartSettings:
    place, kind = f"{made.field}.{name}.", fields.get("judge", made.usual)
    single = [one for one in (*SINGLE, "arena_hard") if one not in MADE_OF_JUDGES or one in made.of]
    if kind not in single and not is_prompt_file(kind):
        raise ValueError(
            f"{place}judge: expected one that sees each response by itself ({', '.join(single)}), found {kind!r}"
        )
    check_fields(place, fields)
    names = frozenset(made.options.model_fields)
    own = name_prompt_file({"judge": kind, **{field: value for field, value in fields.items() if field not in names}})
    options = {field: value for field, value in fields.items() if field in names}
    try:
        given = settings_from_keywords(made.options, options, prefix=place)
        filled = whole.fill_in(own, ScorerSettings.model_fields.keys() - _OF_THE_WHOLE)
        settings = settings_from_keywords(ScorerSettings, filled, prefix=place, others=names)
    except SettingsError as error:
        raise ValueError(str(error)) from None
    return PartSettings(name, given, settings)


_SETTINGS_OF_MADE = (CompositeJudgeSettings, JurySettings, CascadeSettings, StepsSettings)
_OF_THE_WHOLE = {"judge", *(name for made in _SETTINGS_OF_MADE for name in made.__annotations__)}
"""Settings of a judge that is made of judges, which those do not inherit."""


def _open_part(whole: ScorerSettings, part: PartSettings, client: ChatClient) -> Part[Any]:
    """Open a part's judge: at the client of the whole, or at one of its own if it has other settings of calls."""
    settings, of_whole = part.settings, client.settings
    if settings.asks_endpoint and settings.judge not in MADE_OF_JUDGES:
        has_own_rules = "judge_finish_reasons" in settings.model_fields_set
        if of_whole.identity == STAND_IN_IDENTITY:
            settings = settings.replace_endpoint(of_whole.endpoints[0].base_url, of_whole.endpoints[0].model)
        section = f"{MADE_OF_JUDGES[whole.judge].field}.{part.name}."
        chat = settings.chat_settings(retry_delay=of_whole.retry_delay_s, identity=of_whole.identity, section=section)
        if of_whole.batch is not None:
            chat = with_batch(chat, of_whole.batch)
        has_own_rules |= chat.finish_rules.accepted != of_whole.finish_rules.accepted
        if has_own_rules or replace(chat, finish_rules=of_whole.finish_rules, section=of_whole.section) != of_whole:
            client = client.sibling(chat)
    judge = cast("SingleJudge[Any, Any]", JUDGES[settings.judge].judge(settings, client, settings.rubric))
    return Part(part.name, part.options, judge, may_abstain=not settings.asks_endpoint)


def open_judge(settings: ScorerSettings, client: ChatClient) -> TaskJudge:
    """The judge that the settings name."""
    if settings.judge == PROMPT and settings.rubric is not None and "rubric" not in settings.shown_names:
        logger.warning("rubric: nothing reads it, because the prompt file has no {rubric}")
    return JUDGES[settings.judge].judge(settings, client, settings.rubric)


def kinds_that_read(name: str) -> frozenset[str]:
    """The kinds of judges that read a setting of `ScorerSettings`."""
    if name == "rubric":
        return frozenset(kind for kind, judge in JUDGES.items() if judge.reads_rubric) | {*MADE_OF_JUDGES}
    if name in KindSettings.model_fields or name in JudgeSettings.model_fields:
        of_model = name.startswith("judge_")
        return frozenset(
            kind for kind, judge in JUDGES.items() if name not in judge.unread and (judge.asks_endpoint or not of_model)
        )
    reading = {kind for kind, judge in JUDGES.items() if name in judge.settings.model_fields}
    if not reading.isdisjoint(SINGLE):
        reading |= {*MADE_OF_JUDGES}  # a part has the settings that are given for the whole
    return frozenset(reading | {"arena_hard"} if "tournament" in reading else reading)


def check_flags_are_read(loaded: LoadedSettings[SettingsT], judges: Collection[str]) -> None:
    """Check that one of the judges reads each of their settings that the command line gives another value.

    Raises:
        SettingsError: none of them does.
    """
    for name in sorted(ScorerSettings.model_fields):
        reading = kinds_that_read(name)
        if loaded.origins.get(name) != "command line" or reading & {*judges}:
            continue
        if getattr(loaded.settings, name) != ScorerSettings.model_fields[name].get_default(call_default_factory=True):
            words = " or ".join(f"--judge={kind}" for kind in JUDGES if kind in reading)
            raise SettingsError(f"--{name} (command line): nothing reads it without {words}")
