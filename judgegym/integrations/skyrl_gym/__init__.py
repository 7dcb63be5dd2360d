"""SkyRL: our single-turn environments, and our judges alone, as environments of skyrl-gym.

    source = EnvironmentSource.of("arena_hard", {"judge_model_name": "gpt-4.1-mini"})
    register_environment(source)                      # in the training entry point
    write_dataset("train.jsonl", source)              # for data.train_data

Guarantees: every completion is judged as in `serve`, with the limits and the cache of the process; a setting that
cannot work is an error when the environment is registered. SkyRL takes a float as reward and knows no other: a
completion whose judge failed gets `fallback_score`, with `judge_failed` in the step's metadata and the episode's
metrics. `JudgedGenerator` of `generator.py` takes such completions out of the loss; `leave_out_failed` does so for any
generator's output.

Source: skyrl-gym 0.4.0 (`BaseTextEnv`, `register`) and skyrl 0.4.0 (its generator and dataset), November 2026.
"""

from judgegym.integrations.single_turn.source import EnvironmentSource
from judgegym.judges.config.extras import needs

with needs("skyrl-gym"):
    from judgegym.integrations.skyrl_gym.dataset import dataset_rows, write_dataset
    from judgegym.integrations.skyrl_gym.environment import SingleTurnEnv, register_environment
    from judgegym.integrations.skyrl_gym.generated import leave_out_failed
    from judgegym.integrations.skyrl_gym.judge import JudgeEnv, close, register_judge

__all__ = [
    "EnvironmentSource",
    "JudgeEnv",
    "SingleTurnEnv",
    "close",
    "dataset_rows",
    "leave_out_failed",
    "register_environment",
    "register_judge",
    "write_dataset",
]
