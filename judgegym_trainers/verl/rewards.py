"""Settings, samples and gathered groups of verl's reward manager and agent loop.

verl gives each sample to a random reward worker (`AgentLoopWorker._compute_score`), so that the
samples of a prompt are spread over `reward.num_workers` processes. Guarantees: with several
workers, one Ray actor gathers and judges for all of them; the judge's limits hold for the training
as a whole. An actor that dies is restarted, and called again.

Source: verl 0.9.1: `reward.custom_reward_function.reward_kwargs`, the arguments of a deployed
reward model, `AgentLoopWorker._compute_score` (all fields of the row, with `uid` and `raw_prompt`),
`RewardLoopManager` (a deployed reward model that shares its GPUs: the trainer of v1 sends
`raw_prompt` alone); Ray 2.60, named actors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.server.protocols.chat_tokens import plain_prompt
from judgegym_trainers.group_rewards import GroupSettings
from judgegym_trainers.scores.requests import (
    CompletionRow,
    convert_conversation,
    make_completion_row,
    parse_group_id,
    to_json,
)
from judgegym_trainers.scores.results import CompletionReward
from judgegym_trainers.scores.sources import RewardSettings

DEADLINE_S = 280.0
"""Below the 300 s (`reward.timeout`) after which the manager `rate_limited` uses 0, unflagged."""
WITHIN = "reward_kwargs"
ESTIMATORS = (
    *("grpo", "grpo_vectorized", "rloo", "rloo_vectorized"),
    *("reinforce_plus_plus_baseline", "gpg", "gdpo"),
)
"""Values of `algorithm.adv_estimator` that subtract the mean of the group, or of its others."""


def use_deployed_model(
    judge: Mapping[str, Any], arguments: Mapping[str, object]
) -> Mapping[str, Any]:
    """Complete a judge's settings with the model that verl deployed, unless they name an endpoint.

    Args:
        judge: the settings of the judge.
        arguments: verl's arguments: the address of its OpenAI-compatible router, and the model's
            tokenizer, whose path is the served model's name.
    """
    address = arguments.get("reward_router_address")
    if not isinstance(address, str) or judge.get("judge_base_url") is not None:
        return judge
    name = getattr(arguments.get("reward_model_tokenizer"), "name_or_path", None)
    model = {"judge_model_name": name} if isinstance(name, str) and name else {}
    return {**model, **judge, "judge_base_url": f"http://{address}/v1"}


@dataclass(frozen=True, kw_only=True)
class FunctionSettings(RewardSettings):
    """Settings of the function in `reward.custom_reward_function.reward_kwargs`.

    Attributes:
        on_failure: must be `score`: a failed judge is trained as `fallback_score`.
    """

    deadline_s: float = DEADLINE_S
    on_failure: str = "leave_out"


@dataclass(frozen=True, kw_only=True)
class ManagerSettings(GroupSettings):
    """Settings of manager and agent loop in `reward.custom_reward_function.reward_kwargs`.

    `extra_info.uid` names a row of `environment`.
    """

    deadline_s: float = DEADLINE_S

    @classmethod
    def read(cls, settings: object, arguments: Mapping[str, object]) -> ManagerSettings:
        """Read the settings, in any configuration library's containers; see `use_deployed_model`.

        Raises:
            SettingsError: a setting is unknown, or cannot work.
        """
        values = to_json(settings or {})
        if isinstance(values, Mapping) and isinstance(judge := values.get("judge"), Mapping):
            values = {**values, "judge": use_deployed_model(judge, arguments)}
        return cls.from_settings(values, within=WITHIN)

    def check_estimator(self, algorithm: Mapping[str, Any], size: int) -> None:
        """Check that the estimator does not train a failed sample's group mean as a reward.

        Args:
            algorithm: verl's `algorithm`.
            size: `actor_rollout_ref.rollout.n`.

        Raises:
            SettingsError: the estimator trains it as a reward.
        """
        configured = algorithm.get("adv_estimator")
        estimator = str(getattr(configured, "value", configured))
        if self.on_failure == "score" or (estimator in ESTIMATORS and size > 1):
            return
        expected = ", ".join(ESTIMATORS)
        raise SettingsError(
            "algorithm.adv_estimator: JudgeRewardManager can give a failed judge nothing but the "
            f"mean of its group, which {estimator} with rollout.n={size} trains as a reward. "
            f"Expected {expected}, with a rollout.n of 2 or more; or the agent loop "
            "judgegym_trainers.verl.loop.JudgeAgentLoop, which leaves such samples out with every "
            f"estimator; or +reward.custom_reward_function.{WITHIN}.on_failure=score"
        )


MAX_EXPLANATION_LENGTH = 500
"""Limit of an explanation's characters.

verl makes an array of a batch's explanations, each as long as the longest.
"""
PROMPTS = ("question", "prompt")
"""Fields of `extra_info` that may have the question in place of the policy's prompt."""


class VerlSample(NamedTuple):
    """A sample with its group.

    Attributes:
        group: the id of its group: verl's `uid` of the prompt, or else the prompt itself.
        has_uid: whether verl sent its `uid`.
        is_validation: whether it is known to be a validation sample.
        row: prompt, fields and response.
    """

    group: str
    has_uid: bool
    is_validation: bool
    row: CompletionRow


def read_sample(data: Any, tokenizer: Any, *, is_environment: bool) -> VerlSample:
    """Read a sample; of an agent's several outputs the last, like verl's own managers.

    Args:
        data: verl's `DataProto`.
        tokenizer: the policy's tokenizer.
        is_environment: whether `extra_info.uid` names a row of an environment, which has all other
            fields.
    """
    item = data[-1:][0]
    fields: Mapping[str, Any] = item.non_tensor_batch
    mask = item.batch["attention_mask"]
    ids = item.batch["responses"]
    prompt_ids = item.batch["prompts"]
    # Several outputs of one agent are padded together, and have their lengths.
    length = fields.get("response_len")
    prompt_length = fields.get("prompt_len")
    count = int(mask[-ids.shape[-1] :].sum()) if length is None else int(length)
    response = str(tokenizer.decode(ids[:count], skip_special_tokens=True))
    prompt: JSON = None
    if _read_messages(fields.get("raw_prompt")) is None:  # its tokens are padded on either side
        if prompt_length is None:
            unpadded = prompt_ids[mask[: prompt_ids.shape[-1]].bool()]
        else:
            unpadded = prompt_ids[: int(prompt_length)]
        prompt = plain_prompt(tokenizer.decode(unpadded, skip_special_tokens=False))
    sample = read_row_sample(fields, response, prompt=prompt, is_environment=is_environment)
    return sample._replace(
        is_validation=sample.is_validation or bool(data.meta_info.get("validate"))
    )


def read_row_sample(
    fields: Mapping[str, Any], response: str, *, prompt: JSON = None, is_environment: bool = False
) -> VerlSample:
    """Read a sample from the fields of its row.

    Args:
        fields: the columns of the row, with verl's `uid` and `raw_prompt`.
        response: the policy's text.
        prompt: the policy's prompt, if `raw_prompt` has no messages.
        is_environment: whether `extra_info.uid` names a row of an environment, which has all other
            fields.
    """
    raw_info = fields.get("extra_info")
    reward_model = fields.get("reward_model")
    info: Mapping[str, Any] = raw_info if isinstance(raw_info, Mapping) else {}
    truth = None
    if isinstance(reward_model, Mapping):
        truth = reward_model.get("ground_truth")
    prompt = find_prompt(info) or _read_messages(fields.get("raw_prompt")) or prompt
    uid = parse_group_id(to_json(fields.get("uid")))
    row_uid = info.get("uid")
    split = info.get("split")
    if is_environment:
        row = CompletionRow({"uid": row_uid if isinstance(row_uid, str) else None}, response)
    else:
        row = make_completion_row("" if prompt is None else prompt, response, info, truth)
    return VerlSample(
        group=f"{prompt!r}\n{truth!r}" if uid is None else str(uid),
        has_uid=uid is not None,
        is_validation=isinstance(split, str) and split != "train",
        row=row,
    )


def make_extra_info(result: CompletionReward) -> dict[str, float | str]:
    """Return what verl logs for a sample (`reward_extra_info`); all samples have the same keys."""
    return {
        **result.numbers,
        "judge_status": result.status,
        "judge_explanation": result.explanation[:MAX_EXPLANATION_LENGTH],
    }


def find_prompt(info: Mapping[str, object]) -> JSON:
    """Return the question in `extra_info`; `None` if there is none."""
    for name in PROMPTS:
        value = info.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if (messages := _read_messages(value)) is not None:
            return messages
    return None


def _read_messages(value: object) -> JSON:
    turns = value
    if hasattr(value, "tolist"):
        turns = value.tolist()
    is_conversation = (
        isinstance(turns, Sequence) and turns and all(isinstance(turn, Mapping) for turn in turns)
    )
    if is_conversation:
        return convert_conversation(turns)
    return None


_MAX_WAITING = 100_000
"""Limit of samples that wait in the actor; each of verl's reward workers takes 1,000 at a time."""

Score: TypeAlias = Callable[..., Awaitable[CompletionReward]]
"""`SampleBatcher.score`."""


class Actor:
    """A training's groups, in a process of their own."""

    def __init__(self, settings: ManagerSettings, size: int) -> None:
        """Gather groups of `size`."""
        self._batcher = settings.make_batcher(size)

    async def score(
        self, group: str, row: CompletionRow, *, size: int, recurs: bool
    ) -> CompletionReward:
        """See `SampleBatcher`."""
        return await self._batcher.score(group, row, size=size, recurs=recurs)


def make_actor_score(settings: ManagerSettings, size: int) -> Score:
    """Return the score function of these settings' actor, which all reward workers share.

    The actor is started if it does not exist.
    """
    import ray  # late: verl brings it along

    digest = hashlib.sha256(repr((asdict(settings), size)).encode()).hexdigest()[:16]
    options = {
        "name": f"judgegym-{digest}",
        "get_if_exists": True,
        "num_cpus": 0,
        "max_concurrency": _MAX_WAITING,
        "max_restarts": -1,
        "max_task_retries": -1,
    }
    actor: Any = ray.remote(Actor).options(**options).remote(settings, size)

    async def score(group: str, row: CompletionRow, *, size: int, recurs: bool) -> CompletionReward:
        result: CompletionReward = await actor.score.remote(group, row, size=size, recurs=recurs)
        return result

    return score


class SampleRewards:
    """The rewards of one verl process's samples; their groups are gathered in one place.

    Attributes:
        settings: those in verl's configuration.
        size: number of samples of a prompt.
    """

    def __init__(
        self,
        config: Any,
        arguments: Mapping[str, object],
        *,
        workers: int,
        algorithm: Mapping[str, Any] | None = None,
    ) -> None:
        """Read the settings in verl's configuration.

        Args:
            config: the trainer's configuration.
            arguments: the arguments of a reward model that verl deployed.
            workers: number of processes that have samples of a prompt.
            algorithm: verl's `algorithm`, if only the reward can report a failed judge to its
                estimator.

        Raises:
            SettingsError: a setting cannot work.
        """
        function = config.reward.get("custom_reward_function") or {}
        self.settings = ManagerSettings.read(function.get("reward_kwargs"), arguments)
        rollout = config.actor_rollout_ref.rollout
        self.size = int(rollout.n)
        self._validation_size = int(rollout.val_kwargs.n)
        if algorithm is not None:
            self.settings.check_estimator(algorithm, self.size)
        batcher = self.settings.make_batcher(
            self.size
        )  # even if unused, so that wrong settings fail here
        self._score: Score = batcher.score
        if workers > 1:
            import ray  # late: verl brings it along

            if ray.is_initialized():  # not in a script
                self._score = make_actor_score(self.settings, self.size)

    async def reward_sample(self, sample: VerlSample) -> CompletionReward:
        """Return the reward of a sample, once its judge has what it needs of the group.

        Raises:
            SettingsError: no sample can be judged.
        """
        size = self._validation_size if sample.is_validation else self.size
        return await self._score(sample.group, sample.row, size=size, recurs=not sample.has_uid)
