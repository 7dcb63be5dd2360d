"""An environment's settings: `env` (itself and its judge), `openai` (the policy) and the command's own flags."""

from environments.settings.command import EnvSettings
from environments.settings.env import ConfigT, EnvConfig
from environments.settings.policy import PolicySettings, ReplicaSettings
from environments.settings.values import BUNDLED_TOKENIZER, SAMPLES, comma_separated

__all__ = [
    "BUNDLED_TOKENIZER",
    "SAMPLES",
    "ConfigT",
    "EnvConfig",
    "EnvSettings",
    "PolicySettings",
    "ReplicaSettings",
    "comma_separated",
]
