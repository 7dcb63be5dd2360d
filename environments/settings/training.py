"""The settings of training: how groups are made (`serve`, `process`) and how they reach a trainer (`serve`)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel

from environments.settings.verbs import ROLLOUTS, SERVE
from judges.config.fields import operational

TokenSource = Literal["auto", "chat", "token_server", "retokenize"]
EvalHandling = Literal["STOP_TRAIN", "LIMIT_TRAIN", "NONE"]


class RolloutSettings(BaseModel):
    """How groups are sampled, and which of them are kept."""

    help_group: ClassVar[str] = "rollouts"

    group_size: int = operational(
        4, "Sample so many completions of each prompt; they are trained on together.", verbs=ROLLOUTS, ge=1, common=True
    )
    total_steps: int = operational(
        1000, "Stop after so many training steps (serve) or groups (process).", verbs=ROLLOUTS, common=True
    )
    rollout_temperature: float = operational(
        1.0, "Sample the policy at this temperature in training.", verbs=ROLLOUTS, ge=0, common=True
    )
    train_max_tokens: int = operational(
        16384,
        "Limit a completion in training to so many tokens; 0 sends no limit, so that the endpoint's own applies.",
        verbs=ROLLOUTS,
        ge=0,
    )
    token_source: TokenSource = operational(
        "auto",
        "Choose where the tokens of a rollout come from. chat: the endpoint returns what it sampled (vLLM 0.10.2 or "
        "later). token_server: Atropos' token-level servers (openai.server_type vllm, sglang or trl). retokenize: the "
        "chat template over the text, without logprobs. auto: token_server if the server type is one, else chat if the "
        "endpoint can, else retokenize.",
        verbs=ROLLOUTS,
    )
    tokenizer_name: str = operational(
        "NousResearch/DeepHermes-3-Llama-3-3B-Preview",
        "Tokenize with this tokenizer (hub name or directory), where the endpoint returns no tokens.",
        verbs=ROLLOUTS,
    )
    invalid_thinking_reward: float = operational(
        0.0,
        "Reward malformed thinking with this number. At 0.0 a policy whose answer would get less gains by malforming "
        "it; -1.0 prevents that.",
        verbs=ROLLOUTS,
    )
    ensure_scores_are_not_same: bool = operational(
        True, "Drop groups whose scores are all equal: they hold no signal for the trainer.", verbs=ROLLOUTS
    )
    include_messages: bool = operational(False, "Add the messages to each rollout, beside its tokens.", verbs=ROLLOUTS)
    data_path_to_save_groups: str | None = operational(
        None,
        "Write the groups to this JSONL file, too; process takes data/<environment>.jsonl if unset.",
        verbs=ROLLOUTS,
        common=True,
    )
    max_num_workers: int = operational(
        -1, "Work on at most so many groups at once; -1: max_num_workers_per_node for each server.", verbs=ROLLOUTS
    )
    max_num_workers_per_node: int = operational(
        8, "Work on so many groups at once for each server of the policy.", verbs=ROLLOUTS
    )
    worker_timeout: float = operational(
        -1,
        "Drop a group after so many seconds. -1: never; the deadlines of policy and judge lose less.",
        verbs=ROLLOUTS,
    )


class TrainerSettings(BaseModel):
    """The rollout API, the trainer behind it, and what is logged of a training run."""

    help_group: ClassVar[str] = "trainer"

    rollout_server_url: str = operational(
        "http://localhost:8000", "Send the groups to the rollout API at this URL.", verbs=SERVE, common=True
    )
    inference_weight: float = operational(
        1.0,
        "Take this share of the policy's capacity, relative to the weights of the other environments at the same API.",
        verbs=SERVE,
        gt=0,
    )
    min_batch_allocation: float | None = operational(
        None, "Reserve this share (0 to 1) of each batch for this environment.", verbs=SERVE
    )
    max_batches_offpolicy: int = operational(
        3,
        "Queue at most so many batches at the API, so that the policy does not outrun them; 0: no limit.",
        verbs=SERVE,
    )
    max_token_length: int = operational(
        2048,
        "Tell the API that a rollout has at most so many tokens (serve); drop groups with a longer one, if this is set "
        "(process; serve drops what the trainer says is too long).",
        verbs=ROLLOUTS,
    )
    steps_per_eval: int = operational(
        100, "Evaluate the policy every so many training steps; 0 or less: never.", verbs=SERVE, common=True
    )
    max_eval_workers: int = operational(
        16,
        "Evaluate so many rows at once during training, so that the rollouts keep most of the capacity.",
        verbs=SERVE,
    )
    eval_handling: EvalHandling = operational(
        "NONE",
        "While an evaluation runs during training, begin groups as before (NONE), fewer (LIMIT_TRAIN: eval_limit_ratio "
        "of the workers) or no new ones (STOP_TRAIN).",
        verbs=SERVE,
    )
    eval_limit_ratio: float = operational(
        0.5, "Keep this share (0 to 1) of the workers on groups while eval_handling is LIMIT_TRAIN.", verbs=SERVE
    )
    num_rollouts_to_keep: int = operational(
        32, "Show so many groups in the table of rollouts at Weights & Biases.", verbs=SERVE
    )
    num_rollouts_per_group_for_logging: int = operational(
        1, "Show so many rollouts of each group in that table; -1: all.", verbs=SERVE
    )
    min_items_sent_before_logging: int = operational(
        2, "Log the metrics of a step only if at least so many groups were sent in it.", verbs=SERVE
    )
