"""SkyRL: single-turn environments, and judges alone, as environments of skyrl-gym.

    source = EnvironmentSource.from_settings("arena_hard", {"judge_model_name": "gpt-6-luna"})
    register_environment(source)                      # in the training entry point
    write_dataset("train.jsonl", source)              # for data.train_data

Guarantees: every completion is judged as in `serve`, with the process's limits and cache; a setting
that cannot work is an error at registration. SkyRL accepts only a float as reward: a completion
whose judge failed gets `fallback_score`, with `judge_failed` in the step's metadata and the
episode's metrics. `JudgedGenerator` of `generator.py` takes such completions out of the loss;
`leave_out_failed` does so for any generator's output.

Source: skyrl-gym 0.4.0 (`BaseTextEnv`, `register`) and skyrl 0.4.0 (`GeneratorOutput`,
`PromptDataset`), November 2026.
"""

from __future__ import annotations

import math
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from judgegym.judges.config.extras import report_missing_extra
from judgegym.judges.core.event_loop import run_blocking
from judgegym.llm import wire
from judgegym.llm.errors import DataError, SettingsError
from judgegym_trainers.scores.requests import CompletionRow, make_completion_row
from judgegym_trainers.scores.results import CompletionReward, substitute_reward
from judgegym_trainers.scores.sources import JudgeSource, check_settings, close, make_single_source
from judgegym_trainers.single_turn import EnvironmentSource, get_environment, parse_source

with report_missing_extra("skyrl-gym"):
    import skyrl_gym
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

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


class _Episode(BaseTextEnv):
    """An episode of one step, with its metrics."""

    def __init__(self, extras: Mapping[str, Any] | None, fallback_score: float) -> None:
        """Start without metrics; `extras` has the columns of the row."""
        super().__init__()
        spec = (extras or {}).get("reward_spec")
        self._spec: Mapping[str, Any] = spec if isinstance(spec, Mapping) else {}
        self._fallback = fallback_score
        self._metrics: dict[str, float] = {}

    def get_metrics(self) -> dict[str, float]:
        """Return the episode's metrics; only a judged completion has `reward_of_judged`."""
        return dict(self._metrics)

    def end(self, result: CompletionReward) -> BaseTextEnvStepOutput:
        """End the episode with a reward, or with the fallback if the judge failed."""
        self.turns += 1
        self._metrics = result.flags
        if result.reward is not None:
            self._metrics.update({"reward_of_judged": result.reward, **result.metrics})
        flags = {"judge_failed": result.is_failed, "invalid_completion": result.is_invalid}
        reward = result.or_else(self._fallback).score
        return BaseTextEnvStepOutput(
            observations=[], reward=reward, done=True, metadata={**flags, **result.outcome}
        )


class SingleTurnEnv(_Episode):
    """A row of an environment, and the reward of its completion."""

    def __init__(
        self,
        env_config: object = None,
        extras: Mapping[str, Any] | None = None,
        *,
        source: EnvironmentSource,
        fallback_score: float = 0.0,
    ) -> None:
        """Read the row's id from `extras`, in `reward_spec.uid`.

        Raises:
            DataError: the id is missing.
        """
        super().__init__(extras, fallback_score)
        self._uid = self._spec.get("uid")
        self._source = source
        if not isinstance(self._uid, str):
            raise DataError("reward_spec.uid: expected the id of a row, as write_dataset writes it")

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Return the reward of a completion; block until it is ready.

        Raises:
            DataError: the environment has no such row.
        """
        (result,) = get_environment(self._source).rewards_sync(str(self._uid), [action])
        return self.end(result)


def register_environment(
    source: EnvironmentSource | str, *, env_class: str | None = None, fallback_score: float = 0.0
) -> str:
    """Register an environment with skyrl-gym.

    Call it in the training entry point, where the generator runs.

    Args:
        source: the environment, or its name if it needs no settings.
        env_class: the id; by default `judgegym_` and the environment's name.
        fallback_score: the reward of a completion whose judge failed.

    Returns:
        The id, which is `env_class` in the dataset's rows.

    Raises:
        SettingsError: a setting is wrong.
        DataError: the rows cannot be loaded.
    """
    check_settings(fallback_score=fallback_score)
    source = parse_source(source)
    name = env_class or "judgegym_" + get_environment(source).name
    kwargs = {"source": source, "fallback_score": fallback_score}
    skyrl_gym.register(id=name, entry_point=f"{__name__}:SingleTurnEnv", kwargs=kwargs)
    return name


class JudgeEnv(_Episode):
    """A prompt of any dataset, and a judge's score of its completion."""

    def __init__(
        self,
        env_config: object = None,
        extras: Mapping[str, Any] | None = None,
        *,
        source: JudgeSource,
        fallback_score: float = 0.0,
    ) -> None:
        """Judge with the source of `register_judge`, by the row's `reward_spec`."""
        super().__init__(extras, fallback_score)
        info = (extras or {}).get("extra_info")
        self._index = info.get("index") if isinstance(info, Mapping) else None
        self._scoring = source.get_shared_scorer()
        self._prompt: Any = ()

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
        """Store the prompt, which the judge sees."""
        self._prompt = prompt
        return prompt, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Return the score of a completion; block until it is ready.

        Raises:
            SettingsError: the first requests were all refused.
        """
        # Ids for a server that gathers groups: the row's, if it has one, and this step's, for its
        # retries.
        ids = {} if self._index is None else {"group": self._index, "member": uuid.uuid4().hex}
        row = make_completion_row(
            self._prompt, action, self._spec, self._spec.get("ground_truth"), **ids
        )
        if not self._prompt:
            row = CompletionRow({}, action, "no prompt; init comes before step")
        (result,) = run_blocking(self._scoring.score_each([row]))
        return self.end(result)


def register_judge(
    url: str | None = None,
    *,
    fallback_score: float = 0.0,
    env_class: str = "judgegym",
    **settings: Any,
) -> str:
    """Register an environment that returns a judge's score, from 0 to 1, for your own dataset.

    A row's `reward_spec.ground_truth` is the reference, or an object of `reference` and `rubric`;
    `reference`, `rubric`, `aspects`, `criteria`, `baseline` and `context` in `reward_spec` reach
    the judge too.

    Args:
        url: the URL of a reward server.
        fallback_score: the reward of a completion whose judge failed.
        env_class: the id.
        settings: further settings of `JudgeSource`: `judge`, the settings of a judge to run in this
            process, under the server's names, with `offline` at the stand-in; `token`, `token_env`
            and `mount` of the server; `invalid_completion_score` of an empty completion, which is
            not judged; `timeout_s`, seconds for one attempt at the server; `deadline_s`, seconds
            within which a step gets its score, or fails.

    Returns:
        The id, which is `env_class` in the dataset's rows.

    Raises:
        SettingsError: a setting is wrong, or neither or both of `url` and `judge` are given.
    """
    check_settings(fallback_score=fallback_score)
    source = make_single_source(url, settings)
    source.get_shared_scorer()  # wrong settings are errors now
    kwargs = {"source": source, "fallback_score": fallback_score}
    skyrl_gym.register(id=env_class, entry_point=f"{__name__}:JudgeEnv", kwargs=kwargs)
    return env_class


def dataset_rows(
    source: EnvironmentSource | str, *, env_class: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the environment's rows in the format of SkyRL's datasets; see `write_dataset`."""
    source = parse_source(source)
    environment = get_environment(source)
    name = env_class or f"judgegym_{environment.name}"
    for index, row in enumerate(environment.rows()):
        yield {
            "prompt": [dict(message) for message in row.messages],
            "env_class": name,
            "reward_spec": {"method": "judgegym", "uid": row.uid},
            "extra_info": {"split": source.split, "index": index, "category": row.category or ""},
        }


def write_dataset(
    path: str | Path, source: EnvironmentSource | str, *, env_class: str | None = None
) -> Path:
    """Write the environment's rows as a JSONL file for `data.train_data` or `data.val_data`.

    Args:
        path: the file, whose name ends in `.jsonl`.
        source: the environment, with the same split as the registered one.
        env_class: the id of the registered environment.

    Raises:
        SettingsError: SkyRL would not read a file of this name.
    """
    path = Path(path)
    if path.suffix != ".jsonl":
        raise SettingsError(f"{path}: expected a name that ends in .jsonl")
    path.write_bytes(
        b"".join(wire.dumps(row) + b"\n" for row in dataset_rows(source, env_class=env_class))
    )
    return path


def leave_out_failed(
    output: MutableMapping[str, Any], input_batch: Mapping[str, Any]
) -> MutableMapping[str, Any]:
    """Take trajectories whose judge failed out of the loss.

    Their loss masks become zero, and their rewards the mean of their prompt's other rewards: the
    others keep the order and signs of their advantages, and a prompt without other rewards has no
    signal.

    Args:
        output: the output of `SkyRLGymGenerator.generate`, which is changed and returned.
        input_batch: the generator's input.

    Raises:
        SettingsError: the output has no `env_metrics`, as with `generator.batched`.
    """
    metrics = output.get("env_metrics")
    if metrics is None:
        raise SettingsError(
            "generator.batched: expected false; "
            "batched generation reports no metrics of a trajectory"
        )
    ids = output.get("trajectory_ids") or input_batch.get("trajectory_ids")
    groups: dict[object, list[int]] = defaultdict(list)
    for index in range(len(metrics)):
        groups[index if ids is None else ids[index].instance_id].append(index)
    rewards = output["rewards"]
    masks = output["loss_masks"]
    for positions in groups.values():
        failed = [position for position in positions if metrics[position].get("judge_failed")]
        other_rewards = [rewards[member] for member in positions if member not in failed]
        mean = substitute_reward(
            [
                math.fsum(reward) if isinstance(reward, Sequence) else float(reward)
                for reward in other_rewards
            ],
            0.0,
        )
        for index in failed:
            token_rewards = rewards[
                index
            ]  # a number, or one for each token, with the reward at the last
            is_list = isinstance(token_rewards, Sequence) and len(token_rewards) > 0
            rewards[index] = [*[0.0] * (len(token_rewards) - 1), mean] if is_list else mean
            masks[index] = [0] * len(masks[index])
    return output
