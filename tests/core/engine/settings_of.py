"""The settings of an environment as a command line gives them, with a judge that is never asked."""

from __future__ import annotations

from typing import Any

from judgegym.engine.settings import EnvSettings
from judgegym.engine.settings.verbs import Verb
from judgegym.environments.base import JudgedEnv
from judgegym.environments.command_line.arguments import load_settings

NOWHERE = "http://127.0.0.1:9/v1"


def settings_of(
    env_type: type[JudgedEnv[Any, Any, Any]], *flags: str, verb: Verb
) -> EnvSettings[Any]:
    """The settings of one verb."""
    urls = [f"--env.judge_base_url={NOWHERE}", f"--openai.base_url={NOWHERE}"]
    return load_settings(env_type, [*urls, *flags], verb=verb).settings
