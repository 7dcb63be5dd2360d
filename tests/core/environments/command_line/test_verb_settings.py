"""Settings that a verb does not use."""

from pathlib import Path

import pytest
import yaml

from judgegym.engine.settings.verbs import Verb
from judgegym.llm.errors import SettingsError
from tests.core.engine.loading import loaded_from

OTHERS: list[tuple[Verb, str, str]] = [
    ("evaluate", "env.group_size", "serve and process"),
    ("evaluate", "env.rollout_temperature", "serve and process"),
    ("evaluate", "env.rollout_server_url", "serve"),
    ("serve", "limit", "evaluate and process"),
    ("serve", "env.model_answers", "evaluate"),
    ("serve", "retry_failed", "evaluate"),
    ("process", "retry_failed", "evaluate"),
    ("process", "env.eval_temperature", "evaluate and serve"),
    ("process", "env.steps_per_eval", "serve"),
    ("process", "openai.num_requests_for_eval", "evaluate and serve"),
]


@pytest.mark.parametrize(("verb", "name", "verbs"), OTHERS)
def test_flag_of_another_verb_is_refused_with_the_verbs_that_use_it(
    verb: Verb, name: str, verbs: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        loaded_from(f"--{name}=1", verb=verb)
    assert f"--{name} (command line): a setting of {verbs}, not of {verb}" in str(refused.value)


SHARED = {"env": {"group_size": 9, "eval_temperature": 0.5, "seed": 4}, "limit": 3, "resume": False}


@pytest.mark.parametrize("verb", ["evaluate", "serve", "process"])
def test_file_that_several_verbs_share_may_hold_the_settings_of_all(
    verb: Verb, tmp_path: Path
) -> None:
    path = tmp_path / "shared.yaml"
    path.write_text(yaml.safe_dump(SHARED))
    loaded = loaded_from(f"--config={path}", verb=verb)
    settings = loaded.settings
    assert settings.env.seed == 4
    assert settings.env.group_size == (4 if verb == "evaluate" else 9), (
        "the default, where the verb does not use it"
    )
    assert settings.env.eval_temperature == (0.6 if verb == "process" else 0.5)
    assert settings.limit == (None if verb == "serve" else 3)
    assert ("group_size" in settings.public()["env"], "limit" in settings.public()) == (
        verb != "evaluate",
        verb != "serve",
    )


@pytest.mark.parametrize(
    ("verb", "flags", "needs"),
    [
        ("process", ["--env.schedule=swiss"], "--env.group_judge=tournament"),
        (
            "process",
            ["--env.group_judge=listwise", "--env.game_orders=balanced"],
            "--env.group_judge=tournament",
        ),
        (
            "serve",
            ["--env.group_judge=tournament", "--env.listwise_orders=2"],
            "--env.group_judge=listwise",
        ),
        (
            "process",
            ["--env.group_reward_range=signed"],
            "--env.group_judge=listwise or --env.group_judge=tournament",
        ),
        (
            "serve",
            ["--env.group_judge=tournament", "--env.schedule_rounds=2"],
            "--env.schedule=swiss or --env.schedule=balanced",
        ),
        ("evaluate", ["--env.schedule=swiss"], "--env.candidates_play=tournament"),
    ],
)
def test_flag_that_the_other_settings_make_useless_is_refused_with_what_it_needs(
    verb: Verb, flags: list[str], needs: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        loaded_from(*flags, verb=verb)
    name = flags[-1].partition("=")[0]
    assert str(refused.value).startswith(f"{name} (command line): ")
    assert str(refused.value).endswith(f" without {needs}")


def test_useless_setting_of_a_file_is_left_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "swiss.yaml"
    path.write_text(
        "env: {group_judge: tournament, schedule: swiss, schedule_rounds: 2, game_orders: both}"
    )
    flags = f"--config={path}", "--env.group_reward_range=unit"
    loaded = loaded_from(*flags, "--env.group_judge=none", verb="process")
    assert loaded.settings.env.group_judge == "none"
    assert "schedule" not in loaded.settings.public()["env"]
    for name, note in zip(("schedule", "schedule_rounds"), loaded.notes, strict=True):
        assert note.startswith(f"--env.{name} ({path}): ")
        assert note.endswith(" without --env.group_judge=tournament")
    with pytest.raises(
        SettingsError, match=r"listwise_orders .* without --env\.group_judge=listwise"
    ):
        loaded_from(*flags, "--env.listwise_orders=2", verb="process")
