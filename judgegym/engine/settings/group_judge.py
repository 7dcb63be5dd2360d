"""The settings of environments whose groups may be judged together.

Evaluations, including those during training, judge single completions as usual. Guarantees:
settings with which a group cannot be judged together, or which nothing would read, are refused
before the first call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

from pydantic import BaseModel

from judgegym.engine.settings.env import EnvConfig
from judgegym.engine.settings.verbs import ROLLOUTS, Verb
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.group import GroupJudge
from judgegym.judges.listwise.prompt import ListwiseJudgeSettings
from judgegym.judges.scorers.registry import JUDGES
from judgegym.judges.tournament.schedule import WITH_ROUNDS, TournamentSettings, count_games
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError

logger = logging.getLogger(__name__)

GroupJudgeKind = Literal["listwise", "tournament"]
RewardRange = Literal["unit", "signed"]
_REFUSED = frozenset({"judge_critique_rounds"})
"""Settings that all judges share, but judges of groups refuse."""


class GroupJudgeSettings(EnvConfig):
    """Settings for judging a group's completions against each other.

    Class attributes:
        answer_judge: the settings of the judge of single completions, which evaluations use.
        for_criteria: those of its settings that judges of groups also use, in their criteria.
        vote_settings: those of its settings with which a verdict takes several calls.
        always_anchored: whether each row has an anchor, so that a group may have one completion.
    """

    answer_judge: ClassVar[type[JudgeSettings]] = JudgeSettings
    for_criteria: ClassVar[Collection[str]] = ()
    vote_settings: ClassVar[Sequence[str]] = ()
    always_anchored: ClassVar[bool] = False
    choosing: ClassVar[tuple[str, ...]] = ("group_judge",)

    group_judge: Literal["none", GroupJudgeKind] = setting("none", verbs=ROLLOUTS, common=True)
    """Judge the completions of a group against each other, with the row's baseline or reference, if
    any, as one more. none: each alone, as in evaluations. listwise: all in one call
    (listwise_orders=2: in two). tournament: pair by pair, 72 calls for 8 completions and a baseline
    (schedule=swiss: 32)."""
    group_reward_range: RewardRange = setting("unit", verbs=ROLLOUTS)
    """With group_judge: choose the range of rewards. unit: 0 to 1, where a malformed completion's
    default reward of 0.0 is the lowest. signed: -1 to 1; needs invalid_thinking_reward, such as
    -1.0."""

    @classmethod
    def choices(cls) -> Mapping[str, type[BaseModel]]:
        """Return the settings of each judge of groups."""
        return {f"group_judge={kind}": settings for kind, settings in _SETTINGS.items()}

    @classmethod
    def select_choices(cls, values: Mapping[str, Any]) -> Collection[str]:
        """Return the chosen judge of groups."""
        kind = values.get("group_judge")
        return {f"group_judge={kind}"} & {*cls.choices()}

    @property
    def ignored(self) -> Mapping[str, Sequence[str]]:
        """The settings that only a judge of groups reads, and unused rounds of the schedule."""
        kinds = [f"group_judge={kind}" for kind in _SETTINGS]
        ignored: dict[str, Sequence[str]] = {
            name: () for name in super().ignored if name in _REFUSED
        }
        if self.group_judge == "none":
            ignored = {**dict.fromkeys(("group_reward_range", *super().ignored), kinds), **ignored}
        if isinstance(self, TournamentSettings) and self.schedule not in WITH_ROUNDS:
            ignored["schedule_rounds"] = [f"schedule={name}" for name in WITH_ROUNDS]
        return ignored

    def built_in_prompt(self) -> str:
        """Return the prompt of the judge of single completions, which evaluations use."""
        return self.answer_judge.built_in_prompt(self)


_SETTINGS: Mapping[GroupJudgeKind, type[JudgeSettings]] = {
    kind: JUDGES[kind].settings for kind in get_args(GroupJudgeKind)
}


def open_group_judge(
    config: EnvConfig, verb: Verb, client: Callable[[], ChatClient]
) -> GroupJudge | None:
    """Open the judge of groups in the settings; `None` if each completion is judged alone.

    Args:
        config: the environment's settings.
        verb: the command; `serve` may evaluate beside training.
        client: returns the client of the judge model.

    Raises:
        SettingsError: a group cannot be judged with these settings, or some of them would be
            ignored.
    """
    if not isinstance(config, GroupJudgeSettings) or config.group_judge == "none":
        return None
    kind = config.group_judge
    problems = list(
        _find_problems(config, kind, evaluates=verb == "serve" and config.steps_per_eval > 0)
    )
    if problems:
        sentence = "; it ".join(problems)
        raise SettingsError(f"--env.group_judge: {kind} {sentence}")
    # Only what the user has set: what other judges set by themselves, such as a layout, is not for
    # this one.
    if _SETTINGS[kind] is ListwiseJudgeSettings:
        from judgegym.judges.listwise.judge import ListwiseGroupJudge  # late: only a group needs it

        return ListwiseGroupJudge(
            ListwiseJudgeSettings.model_construct(**_explicit_settings(config, kind)), client()
        )
    from judgegym.judges.tournament.progress import (
        TournamentGroupJudge,  # late: only a group needs it, and it brings numpy along
    )

    settings = TournamentSettings.model_construct(**_explicit_settings(config, kind))
    judge = TournamentGroupJudge(settings, client())
    logger.info(
        "each group plays up to %d games, a judge call each (group_size=%d and an anchor, "
        "schedule=%s, game_orders=%s)",
        count_games(settings, config.group_size + 1),
        config.group_size,
        settings.schedule,
        settings.game_orders,
    )
    return judge


def _explicit_settings(config: GroupJudgeSettings, kind: GroupJudgeKind) -> dict[str, Any]:
    """Return the judge's settings that the user has set, validated."""
    return {
        name: getattr(config, name)
        for name in _SETTINGS[kind].model_fields
        if name in config.model_fields_set
    }


def _find_problems(
    config: GroupJudgeSettings, kind: GroupJudgeKind, *, evaluates: bool
) -> Iterator[str]:
    """Yield conflicts between settings, each as the end of a sentence about the judge of groups."""
    if config.policy_is_judge:
        yield (
            "compares responses; with role=judge the policy gives verdicts, which are compared "
            "with gold labels; set role=policy"
        )
        return
    if config.group_size < 2 and not config.always_anchored:
        yield f"needs two completions to compare; got group_size={config.group_size}"
    if (
        config.group_reward_range == "signed"
        and "invalid_thinking_reward" not in config.model_fields_set
    ):
        yield (
            "would give rewards from -1 (group_reward_range=signed), below the "
            f"{config.invalid_thinking_reward:g} of malformed completions; set "
            "invalid_thinking_reward, such as -1.0"
        )
    if config.judge_critique_rounds:
        yield f"has no self-critique; got judge_critique_rounds={config.judge_critique_rounds}"
    if config.vote_count() > 1:
        names, votes = " and ".join(config.vote_settings), config.vote_count()
        yield f"takes no votes, and {names} would have {votes} for each verdict, expected 1"
    prompt = _SETTINGS[kind].model_construct(**_explicit_settings(config, kind)).built_in_prompt()
    if evaluates and config.judge_system_prompt is not None and prompt != config.built_in_prompt():
        yield (
            "would get the judge_system_prompt of the judge that evaluates beside training; set "
            "steps_per_eval=-1, or leave the prompt out"
        )
    if evaluates:
        return
    ignored = _ignored_answer_settings(config, kind)
    if ignored:
        fields = config.answer_judge.model_fields
        changed = _assignments({name: getattr(config, name) for name in ignored})
        defaults = _assignments({name: fields[name].default for name in ignored})
        yield (
            f"does not read {changed}, and this command asks no other judge; leave out, or set "
            f"{defaults}"
        )


def _assignments(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _ignored_answer_settings(config: GroupJudgeSettings, kind: GroupJudgeKind) -> list[str]:
    """Return changed settings of the judge of single completions that the judge of groups ignores.

    An environment has its judge's settings with any `group_judge`, since evaluations during
    training use that judge.
    """
    read = _SETTINGS[kind].model_fields.keys() | {*config.for_criteria, *config.vote_settings}
    fields = config.answer_judge.model_fields
    ignored = [name for name in fields if name not in read]
    changed = [name for name in ignored if name in config.model_fields_set]
    return [name for name in changed if getattr(config, name) != fields[name].default]
