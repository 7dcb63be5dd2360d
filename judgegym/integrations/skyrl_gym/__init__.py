"""SkyRL: our single-turn environments, and our judges alone, as environments of skyrl-gym.

    source = EnvironmentSource.of("arena_hard", {"judge_model_name": "gpt-4.1-mini"})
    register_environment(source)                      # in the training entry point
    write_dataset("train.jsonl", source)              # for data.train_data

Guarantees: every completion is judged as in `serve`, with the limits and the cache of the process; a setting that
cannot work is an error when the environment is registered. SkyRL takes a float as reward and knows no other: a
completion whose judge failed gets `fallback_score`, with `judge_failed` in the step's metadata and the episode's
metrics. `JudgedGenerator` of `generator.py` takes such completions out of the loss; `leave_out_failed` does so for any
generator's output.

Source: skyrl-gym 0.4.0 (`BaseTextEnv`, `register`) and skyrl 0.4.0 (`GeneratorOutput`, `PromptDataset`), November 2026.
"""

from __future__ import annotations

import math
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judgegym.integrations.scores.requests import (
    CellError,
    Conversation,
    RefusedError,
    Request,
    conversation_json,
    fields_in,
    group_id,
    plain,
)
from judgegym.integrations.scores.results import CompletionReward, check_finite, stand_in
from judgegym.integrations.scores.sources import (
    DEADLINE_S,
    TIMEOUT_S,
    JudgeSource,
    close,
    refuse_groups,
    shared_scoring,
)
from judgegym.integrations.single_turn import EnvironmentSource, opened, source_of
from judgegym.judges.config.extras import needs
from judgegym.judges.core.event_loop import run_blocking
from judgegym.llm import wire
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON

with needs("skyrl-gym"):
    import skyrl_gym
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

if TYPE_CHECKING:
    from judgegym.server.settings import JudgeMount

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

    def __init__(self, extras: Mapping[str, Any] | None) -> None:
        """Begin without metrics, with the columns of a row."""
        super().__init__()
        spec = (extras or {}).get("reward_spec")
        self._spec: Mapping[str, Any] = spec if isinstance(spec, Mapping) else {}
        self._metrics: dict[str, float] = {}

    def get_metrics(self) -> dict[str, float]:
        """The metrics of the episode; `reward_of_judged` and the environment's own only where the judge gave one."""
        return dict(self._metrics)

    def end(self, rewarded: CompletionReward, fallback: float) -> BaseTextEnvStepOutput:
        """End the episode with a reward, or with `fallback` if the judge failed."""
        self.turns += 1
        self._metrics = rewarded.flags
        if rewarded.reward is not None:
            self._metrics.update({"reward_of_judged": rewarded.reward, **rewarded.metrics})
        flags = {"judge_failed": rewarded.is_failed, "invalid_completion": rewarded.is_invalid}
        reward = rewarded.worth(fallback).score
        return BaseTextEnvStepOutput(observations=[], reward=reward, done=True, metadata={**flags, **rewarded.said})


class SingleTurnEnv(_Episode):
    """A row of an environment, and the reward of the completion."""

    def __init__(
        self,
        env_config: object = None,
        extras: Mapping[str, Any] | None = None,
        *,
        source: EnvironmentSource,
        fallback_score: float = 0.0,
    ) -> None:
        """Take the row that `extras` name in `reward_spec.uid`.

        Raises:
            DataError: they name none.
        """
        super().__init__(extras)
        uid = self._spec.get("uid")
        if not isinstance(uid, str):
            raise DataError("reward_spec.uid: expected the id of a row, as write_dataset writes it")
        self._uid, self._source, self._fallback = uid, source, fallback_score

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """The reward of a completion; blocks until it is there.

        Raises:
            DataError: the environment has no such row.
        """
        (rewarded,) = opened(self._source).rewards_sync(self._uid, [action])
        return self.end(rewarded, self._fallback)


def register_environment(
    source: EnvironmentSource | str, *, env_class: str | None = None, fallback_score: float = 0.0
) -> str:
    """Register an environment with skyrl-gym; to be called in the training entry point, where the generator runs.

    Args:
        source: the environment, or its name if it needs no settings.
        env_class: the id; by default `judgegym_` and the environment's name.
        fallback_score: the reward of a completion whose judge failed.

    Returns:
        The id, which the dataset's rows have as `env_class`.

    Raises:
        SettingsError: a setting is wrong.
        DataError: the rows cannot be loaded.
    """
    check_finite(fallback_score=fallback_score)
    source = source_of(source)
    name = env_class or f"judgegym_{opened(source).name}"
    kwargs = {"source": source, "fallback_score": fallback_score}
    skyrl_gym.register(id=name, entry_point=f"{__name__}:SingleTurnEnv", kwargs=kwargs)
    return name


class JudgeEnv(_Episode):
    """A prompt of any dataset, and a judge's score of the completion."""

    def __init__(
        self,
        env_config: object = None,
        extras: Mapping[str, Any] | None = None,
        *,
        source: JudgeSource,
        fallback_score: float = 0.0,
        invalid_completion_score: float = 0.0,
    ) -> None:
        """Judge with the source that `register_judge` makes, by the row's `reward_spec`."""
        super().__init__(extras)
        info = (extras or {}).get("extra_info")
        self._index = info.get("index") if isinstance(info, Mapping) else None
        self._scoring = shared_scoring(source)
        self._fallback, self._invalid = fallback_score, invalid_completion_score
        self._prompt: Conversation = ()

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
        """Keep the prompt, which the judge is shown."""
        self._prompt = prompt
        return prompt, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """The score of a completion; blocks until it is there.

        Raises:
            SettingsError: the first requests were all refused.
        """
        ((result,),) = run_blocking(self._scoring.score([self._request(action)], self._invalid))
        return self.end(result, self._fallback)

    def _request(self, action: str) -> Request | RefusedError:
        if not self._prompt:
            return RefusedError("no prompt; init comes before step")
        try:
            # The ids for a server that gathers groups: the row's, if it has one, and one of this step, for its retries.
            group = group_id(plain(self._index))
            ids: dict[str, JSON] = {} if group is None else {"group": group, "member": uuid.uuid4().hex}
            fields = fields_in(self._spec, self._spec.get("ground_truth"))
            return {"prompt": conversation_json(self._prompt), "response": action, **fields, **ids}
        except CellError as error:
            return RefusedError(str(error))


def register_judge(
    url: str | None = None,
    *,
    judge: JudgeMount | Mapping[str, object] | None = None,
    token: str | None = None,
    mount: str = "",
    fallback_score: float = 0.0,
    invalid_completion_score: float = 0.0,
    timeout_s: float = TIMEOUT_S,
    deadline_s: float = DEADLINE_S,
    offline: bool = False,
    env_class: str = "judgegym",
) -> str:
    """Register an environment that gives the score of a judge, from 0 to 1, for a dataset of one's own.

    A row's `reward_spec.ground_truth` is the reference, or an object of `reference` and `rubric`; `reference`,
    `rubric`, `aspects`, `baseline` and `context` in `reward_spec` reach the judge, too.

    Args:
        url: the URL of a reward server.
        judge: the settings of a judge to run in this process, under the server's names.
        token: the server's bearer token.
        mount: the name of a judge at the server; empty for the judge at the root.
        fallback_score: the reward of a completion whose judge failed.
        invalid_completion_score: the reward of an empty completion, about which no judge is asked.
        timeout_s: seconds for one attempt at the server.
        deadline_s: seconds within which a step has its score; what has none by then has failed.
        offline: ask the stand-in instead of the endpoint of `judge`; its scores mean nothing.
        env_class: the id.

    Returns:
        The id, which the dataset's rows have as `env_class`.

    Raises:
        SettingsError: a setting is wrong, or neither or both of `url` and `judge` are given.
    """
    check_finite(fallback_score=fallback_score, invalid_completion_score=invalid_completion_score)
    refuse_groups(judge)
    source = JudgeSource(
        url, judge, token=token, mount=mount, timeout_s=timeout_s, deadline_s=deadline_s, offline=offline
    )
    shared_scoring(source)  # a wrong setting is an error now
    kwargs = {"source": source, "fallback_score": fallback_score, "invalid_completion_score": invalid_completion_score}
    skyrl_gym.register(id=env_class, entry_point=f"{__name__}:JudgeEnv", kwargs=kwargs)
    return env_class


def dataset_rows(source: EnvironmentSource | str, *, env_class: str | None = None) -> Iterator[dict[str, Any]]:
    """The environment's rows as SkyRL's dataset has them; see `write_dataset`."""
    source = source_of(source)
    environment = opened(source)
    name = env_class or f"judgegym_{environment.name}"
    for index, row in enumerate(environment.rows()):
        yield {
            "prompt": [dict(message) for message in row.messages],
            "env_class": name,
            "reward_spec": {"method": "judgegym", "uid": row.uid},
            "extra_info": {"split": source.split, "index": index, "category": row.category or ""},
        }


def write_dataset(path: str | Path, source: EnvironmentSource | str, *, env_class: str | None = None) -> Path:
    """Write the environment's rows as a JSONL file for `data.train_data` or `data.val_data`.

    Args:
        path: the file, which ends in `.jsonl`.
        source: the environment, with the same split as the one that is registered.
        env_class: the id under which it is registered.

    Raises:
        SettingsError: SkyRL would not read a file of this name.
    """
    path = Path(path)
    if path.suffix != ".jsonl":
        raise SettingsError(f"{path}: expected a name that ends in .jsonl")
    path.write_bytes(b"".join(wire.dumps(row) + b"\n" for row in dataset_rows(source, env_class=env_class)))
    return path


def leave_out_failed(output: MutableMapping[str, Any], input_batch: Mapping[str, Any]) -> MutableMapping[str, Any]:
    """Take the trajectories whose judge failed out of the loss.

    Their loss masks become zero, and their rewards the mean of the others of their prompt, so that those keep their
    advantages' order and signs, and a prompt without any other has no signal.

    Args:
        output: what `SkyRLGymGenerator.generate` returned, which is changed and returned.
        input_batch: what it was called with.

    Raises:
        SettingsError: the output has no `env_metrics`, as with `generator.batched`.
    """
    metrics = output.get("env_metrics")
    if metrics is None:
        raise SettingsError("generator.batched: expected false; batched generation tells no metrics of a trajectory")
    ids = output.get("trajectory_ids") or input_batch.get("trajectory_ids")
    groups: dict[object, list[int]] = defaultdict(list)
    for place in range(len(metrics)):
        groups[place if ids is None else ids[place].instance_id].append(place)
    for places in groups.values():
        totals = [None if metrics[place].get("judge_failed") else _total(output["rewards"][place]) for place in places]
        if None not in totals:
            continue
        mean = stand_in(totals, 0.0)
        for place, total in zip(places, totals, strict=True):
            if total is None:
                output["rewards"][place] = _as(output["rewards"][place], mean)
                output["loss_masks"][place] = [0] * len(output["loss_masks"][place])
    return output


def _total(reward: float | Sequence[float]) -> float:
    return math.fsum(reward) if isinstance(reward, Sequence) else float(reward)


def _as(reward: float | Sequence[float], value: float) -> float | list[float]:
    """A reward in the form of another: a number, or one for each token, of which the last has it all."""
    return [*([0.0] * (len(reward) - 1)), value] if isinstance(reward, Sequence) and reward else value
