"""Settings as the command line loads them."""

from typing import Any

from environments.command_line.arguments import load_settings
from environments.settings import EnvSettings
from environments.settings.verbs import Verb
from eval_environments.arena_hard_environment import ArenaHardEnv
from judges.config.sources import LoadedSettings


def loaded_from(*flags: str, verb: Verb = "evaluate") -> LoadedSettings[EnvSettings[Any]]:
    """The settings of Arena-Hard from these flags."""
    return load_settings(ArenaHardEnv, flags, verb=verb)
