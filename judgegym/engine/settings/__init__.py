"""An environment's settings: `env` (with its judge), `openai` (the policy), command flags."""

from judgegym.engine.settings.command import EnvSettings
from judgegym.engine.settings.env import ConfigT, EnvConfig
from judgegym.engine.settings.policy import BUNDLED_TOKENIZER, SAMPLES, PolicySettings
from judgegym.judges.config.explaining import split_commas

__all__ = [
    "BUNDLED_TOKENIZER",
    "SAMPLES",
    "ConfigT",
    "EnvConfig",
    "EnvSettings",
    "PolicySettings",
    "split_commas",
]
