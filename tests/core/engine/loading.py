"""Settings as the command line loads them."""

from typing import Any

from judgegym.engine.settings import EnvSettings
from judgegym.engine.settings.verbs import Verb
from judgegym.environments.command_line.arguments import load_settings
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.judges.config.sources import LoadedSettings


def loaded_from(*flags: str, verb: Verb = "evaluate") -> LoadedSettings[EnvSettings[Any]]:
    """The settings of Arena-Hard from these flags."""
    return load_settings(ArenaHardEnv, flags, verb=verb)
