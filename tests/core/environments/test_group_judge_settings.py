"""The settings of groups that are judged together: which verbs have them, and what is refused."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.completions import Clients
from judgegym.engine.settings import EnvConfig
from judgegym.engine.settings.group_judge import GroupJudgeSettings, open_group_judge
from judgegym.engine.settings.verbs import Verb
from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.environments.base import JudgedEnv
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.listwise.prompt import ListwiseJudgeSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError
from judgegym.llm.http.exchange import open_session
from tests.command import ROOT
from tests.core.engine.settings_of import settings_of
from tests.core.environments.test_base import SPEC
from tests.core.environments.words import Said, Word, WordsEnv

Env = type[JudgedEnv[Any, Any, Any]]
ENVS: tuple[Env, ...] = (ArenaHardEnv, AspectCritiqueEnv, RubricAbsoluteEnv)
KINDS = ("listwise", "tournament")
NO_EVALUATION = "--env.steps_per_eval=-1"


async def opened(env_type: Env, *flags: str, verb: Verb = "serve") -> Any:
    """The judge of groups of an environment with these settings."""
    settings = settings_of(env_type, *flags, verb=verb)
    async with open_session() as session:
        return open_group_judge(settings.env, verb, lambda: Clients(settings, session).judge)


@pytest.mark.parametrize("env_type", ENVS)
@pytest.mark.parametrize("verb", ["serve", "process"])
@pytest.mark.parametrize("kind", KINDS)
async def test_judge_of_groups_is_opened_with_the_defaults_of_each_environment(
    env_type: Env, verb: Verb, kind: str
) -> None:
    assert await opened(env_type, verb=verb) is None
    judge = await opened(env_type, f"--env.group_judge={kind}", verb=verb)
    assert kind in type(judge).__module__
    assert isinstance(judge.client, ChatClient)


async def test_settings_of_a_judge_that_is_not_asked_for_are_none() -> None:
    names = expand_choices(AspectCritiqueEnv.config_type).model_fields
    single, of_judge = (
        settings_of(AspectCritiqueEnv, verb="serve").env,
        {*ListwiseJudgeSettings.model_fields},
    )
    assert {*names} - {*type(single).model_fields} >= {
        "schedule",
        "judge_protocol",
        "judge_reask",
        "listwise_orders",
    }
    together = settings_of(AspectCritiqueEnv, "--env.group_judge=listwise", verb="serve").env
    assert {*type(together).model_fields} == {*type(single).model_fields} | of_judge
    assert (
        await opened(AspectCritiqueEnv, "--env.schedule=swiss", "--env.group_judge=tournament")
        is not None
    )
    assert await opened(ArenaHardEnv, "--env.judge_reask=2") is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("env_type", "flags", "words"),
    [
        (AspectCritiqueEnv, ["--env.role=judge"], "role=judge"),
        (RubricAbsoluteEnv, ["--env.role=judge"], "role=judge"),
        (AspectCritiqueEnv, ["--env.group_size=1"], "two completions .* group_size=1"),
        (RubricAbsoluteEnv, ["--env.group_size=1"], "two completions .* group_size=1"),
        (
            ArenaHardEnv,
            ["--env.judge_critique_rounds=1"],
            "self-critique; got judge_critique_rounds=1",
        ),
        (AspectCritiqueEnv, ["--env.strictness=2"], "no votes, and strictness would have 3"),
        (
            AspectCritiqueEnv,
            ['--env.aspects=[{"name": "correctness", "strictness": 5}]'],
            "no votes, and strictness would have 5",
        ),
        (
            RubricAbsoluteEnv,
            ["--env.samples_per_item=2"],
            "no votes, and samples_per_item would have 2",
        ),
        (
            RubricAbsoluteEnv,
            [NO_EVALUATION, "--env.output_format=result"],
            "does not read output_format=result",
        ),
        (
            RubricAbsoluteEnv,
            [NO_EVALUATION, "--env.weighting=logprobs"],
            "does not read weighting=logprobs",
        ),
        (AspectCritiqueEnv, [NO_EVALUATION, "--env.scoring=share"], "does not read scoring=share"),
        (
            RubricAbsoluteEnv,
            ["--env.judge_system_prompt=Judge."],
            "the judge_system_prompt .*set steps_per_eval=-1",
        ),
    ],
)
async def test_what_a_judge_of_groups_cannot_do_is_refused_in_one_line(
    env_type: Env, flags: list[str], words: str, kind: str
) -> None:
    with pytest.raises(SettingsError, match=rf"--env.group_judge: {kind} .*{words}") as refused:
        await opened(env_type, f"--env.group_judge={kind}", *flags)
    assert "\n" not in str(refused.value)
    await opened(env_type, *flags)  # each by itself, they may


@pytest.mark.parametrize("kind", KINDS)
async def test_signed_rewards_need_to_know_what_malformed_completions_get(kind: str) -> None:
    """With the default a policy would gain by malforming what would lose."""
    flags = f"--env.group_judge={kind}", "--env.group_reward_range=signed"
    with pytest.raises(
        SettingsError,
        match=r"group_reward_range=signed.*, below the 0 .*set invalid_thinking_reward",
    ):
        await opened(ArenaHardEnv, *flags)
    assert await opened(ArenaHardEnv, *flags, "--env.invalid_thinking_reward=-1") is not None


@pytest.mark.parametrize("env_type", ENVS)
@pytest.mark.parametrize("kind", KINDS)
async def test_presets_judge_groups_together_with_the_lines_that_they_have_for_it(
    env_type: Env, kind: str, tmp_path: Path
) -> None:
    preset = (ROOT / "configs" / f"{env_type.spec.name}_train.yaml").read_text(encoding="utf-8")
    lines = [
        line for line in preset.splitlines() if not re.match(r"  (strictness|scoring|role):", line)
    ]
    wanted = [line.replace("# ", "", 1) if "# group_judge: " in line else line for line in lines]
    assert wanted != lines
    path = tmp_path / "train.yaml"
    path.write_text(
        "\n".join(wanted).replace("group_judge: listwise", f"group_judge: {kind}"), encoding="utf-8"
    )
    judge = await opened(env_type, f"--config={path}")
    assert kind in type(judge).__module__


async def test_arena_hards_protocol_is_that_of_its_tournaments_and_of_no_listwise_judge() -> None:
    flags = "--env.judge_protocol=arena_hard_v0.1", "--env.judge_system_prompt=Compare."
    judge = await opened(ArenaHardEnv, "--env.group_judge=tournament", *flags, verb="serve")
    assert judge._settings.judge_protocol == "arena_hard_v0.1"
    assert judge._settings.judge_system_prompt == "Compare."
    with pytest.raises(SettingsError, match=r"the judge_system_prompt .*set steps_per_eval=-1"):
        await opened(
            ArenaHardEnv,
            "--env.group_judge=tournament",
            "--env.tournament_game=choice",
            *flags,
            verb="serve",
        )
    with pytest.raises(SettingsError, match="does not read judge_protocol"):
        await opened(ArenaHardEnv, "--env.group_judge=listwise", flags[0], verb="process")


async def test_judge_gets_its_own_defaults_where_another_judge_has_others() -> None:
    """A single aspect is judged in another layout than a game."""
    judge = await opened(
        AspectCritiqueEnv, "--env.group_judge=tournament", "--env.aspects=correctness"
    )
    assert judge._settings.judge_prompt_layout == "published"
    assert judge._settings.game_orders == "both"
    judge = await opened(
        AspectCritiqueEnv, "--env.group_judge=tournament", "--env.game_orders=balanced"
    )
    assert judge._settings.game_orders == "balanced"


def test_environment_with_such_settings_needs_a_case_of_its_groups() -> None:
    answers = {
        name: getattr(WordsEnv, name)
        for name in ("tasks", "conversations", "judge", "record_metrics")
    }
    base: Any = JudgedEnv[GroupJudgeSettings, Word, Said]

    def made(**more: Any) -> Any:
        namespace = {"spec": SPEC, **answers, **more, "__orig_bases__": (base,)}
        return type("Mine", (base.__origin__,), namespace)

    with pytest.raises(TypeError, match="the method `group_case`"):
        made()
    assert issubclass(made(group_case=lambda self, task: None).config_type, EnvConfig)


async def test_cost_of_a_tournament_is_said_before_it_is_paid(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    await opened(ArenaHardEnv, "--env.group_judge=tournament", "--env.group_size=33")
    assert "up to 1122 games" in caplog.text
    assert "(group_size=33 and an anchor, " in caplog.text
