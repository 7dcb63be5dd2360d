"""An environment's settings: `env` (itself and its judge), `openai` (the policy) and the command's own flags."""

from environments.settings.command import EnvSettings
from environments.settings.env import ConfigT, EnvConfig
from environments.settings.policy import PolicySettings, ReplicaSettings
from environments.settings.values import BUNDLED_TOKENIZER, SAMPLES, TextOrFile, comma_separated, text_or_file

__all__ = [
    "BUNDLED_TOKENIZER",
    "SAMPLES",
    "ConfigT",
    "EnvConfig",
    "EnvSettings",
    "PolicySettings",
    "ReplicaSettings",
    "TextOrFile",
    "comma_separated",
    "text_or_file",
]
