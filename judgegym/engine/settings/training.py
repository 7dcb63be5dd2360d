"""The settings of training: how groups are made, and how they reach a trainer.

A file written for Atropos may have settings without an effect here: a warning names them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import BaseModel

from judgegym.engine.settings.verbs import ROLLOUTS, SERVE
from judgegym.judges.config.fields import operational, setting
from judgegym.judges.config.sources import SettingsSource
from judgegym.llm.errors import SettingsError

TokenSource = Literal["auto", "chat", "token_server", "retokenize"]
RowWeighting = Literal["equal", "signal"]
RewardBy = Literal["conversation", "turn"]
EvalHandling = Literal["STOP_TRAIN", "LIMIT_TRAIN", "NONE"]


# A `setting` affects the results of a run, so --resume refuses another value; `operational` ones
# may change.


class RolloutSettings(BaseModel, use_attribute_docstrings=True):
    """How groups are sampled, and which of them are kept."""

    help_group: ClassVar[str] = "rollouts"

    group_size: int = setting(4, verbs=ROLLOUTS, ge=1, common=True)
    """Sample this many completions of each prompt; together they are one group."""
    total_steps: int = operational(1000, verbs=ROLLOUTS, common=True)
    """Stop after this many training steps (serve) or groups (process). serve: -1 uses the
    trainer's number of steps."""
    rollout_temperature: float = setting(1.0, verbs=ROLLOUTS, ge=0, common=True)
    """Sample the policy at this temperature in training."""
    train_max_tokens: int = setting(16384, verbs=ROLLOUTS, ge=0)
    """Limit a completion in training to this many tokens; 0 sends no limit, so that the endpoint's
    own applies."""
    token_source: TokenSource = setting("auto", verbs=ROLLOUTS)
    """Choose where the tokens of a rollout come from. chat: the chat endpoint returns the sampled
    token ids and logprobs (vLLM 0.10.2 or later, llama.cpp's server). token_server: Atropos'
    token-level servers (openai.server_type vllm, sglang or trl). retokenize: the chat template is
    applied to the text, without logprobs. auto: token_server if server_type names one, else chat if
    the endpoint returns token ids, else retokenize."""
    tokenizer_name: str | None = setting(None, verbs=ROLLOUTS)
    """Tokenize with this tokenizer (hub name or directory) if the endpoint returns no token ids. If
    unset, the tokenizer is loaded by the policy's name, openai.model_name."""
    invalid_thinking_reward: float = setting(0.0, verbs=ROLLOUTS)
    """Give a completion with malformed thinking, or a refusal, this reward. If rewards can be
    negative, set the lowest one (-1.0): at 0.0 the policy gains by breaking the format whenever it
    would lose."""
    ensure_scores_are_not_same: bool = setting(True, verbs=ROLLOUTS)
    """Drop groups whose rewards are all equal: their advantages are zero."""
    reward_by: RewardBy = setting("conversation", verbs=ROLLOUTS)
    """Reward a conversation of several turns once, or each turn for its own score, against the same
    turn of the other rollouts. turn needs an environment whose judgments have a score of each
    turn."""
    include_messages: bool = setting(False, verbs=ROLLOUTS)
    """Send the messages of each rollout with its tokens."""
    data_path_to_save_groups: str | None = operational(None, verbs=ROLLOUTS, common=True)
    """Write the groups to this JSONL file. If unset, process writes to data/<environment>.jsonl and
    serve to none."""
    max_num_workers: int = operational(-1, verbs=ROLLOUTS)
    """Work on at most this many groups at once; -1: 8 for each server of the policy."""
    worker_timeout: float = operational(-1, verbs=ROLLOUTS)
    """Drop a group that takes longer than this many seconds, including time in which an endpoint is
    unreachable; -1: never. Prefer the deadlines of policy and judge, which lose one rollout and not
    the whole group."""


class TrainerSettings(BaseModel, use_attribute_docstrings=True):
    """The rollout API, the trainer behind it, and what is logged of a training run."""

    help_group: ClassVar[str] = "trainer"

    rollout_server_url: str = operational("http://localhost:8000", verbs=SERVE, common=True)
    """Send groups to the rollout API at this URL."""
    inference_weight: float = operational(1.0, verbs=SERVE, gt=0)
    """Take a share of the policy's capacity in proportion to this weight, among the environments of
    the same API."""
    min_batch_allocation: float | None = operational(None, verbs=SERVE)
    """Reserve at least this share (0 to 1) of each batch for this environment; nothing is
    reserved if unset."""
    row_weights: RowWeighting = operational("equal", verbs=SERVE)
    """Choose how often rows are drawn. equal: once in each epoch. signal: rows whose last two
    groups had only equal rewards are drawn less often, until one of their groups has unequal
    ones."""
    max_batches_offpolicy: int = operational(3, verbs=SERVE)
    """Queue at most this many batches at the API; a longer queue means older rollouts. 0: no
    limit."""
    max_token_length: int = setting(2048, verbs=ROLLOUTS)
    """Limit a rollout's sequence to this many tokens. serve: report it to the API, and drop groups
    that are longer than the trainer allows. process: drop longer groups, but only if you set this
    yourself."""
    steps_per_eval: int = operational(100, verbs=SERVE, common=True)
    """Evaluate the policy once in this many training steps; 0 or less: never."""
    max_eval_workers: int = operational(16, verbs=SERVE)
    """Evaluate at most this many rows at once during training, so that rollouts keep most of the
    capacity."""
    eval_handling: EvalHandling = operational("NONE", verbs=SERVE)
    """Choose what happens to rollouts during an evaluation. NONE: new groups start as before.
    LIMIT_TRAIN: only on half of the workers. STOP_TRAIN: no new groups start."""


logger = logging.getLogger(__name__)

IGNORED: Mapping[str, str] = {
    "env.batch_size": "the trainer sets it",
    "openai.health_check": "health checks would be completions that somebody pays for",
    "openai.rolling_buffer_length": "metrics are of the whole run",
    "openai.tokenizer_name": "env.tokenizer_name is used instead",
    "openai.weight": "each request goes to the server with the fewest open requests",
    "slurm": "name the servers in openai.base_url, or as a list under openai",
    "testing": "--offline has stand-ins for the endpoints",
}
"""Settings without an effect, each with the reason."""
_NEEDED = ("slurm", "testing")
"""Settings that ask for a feature if they are true: ignoring them silently would mislead."""


def refuse_ignored(argv: Sequence[str]) -> None:
    """Refuse ignored settings on the command line.

    Raises:
        SettingsError: a flag sets one.
    """
    for word in argv:
        name = word.partition("=")[0].removeprefix("--")
        if word.startswith("--") and name in IGNORED:
            raise _refusal(name, "command line")


def drop_ignored(source: SettingsSource) -> SettingsSource:
    """Return a source without ignored settings; warn about those of a file.

    Raises:
        SettingsError: an environment variable sets one, or a file asks for a feature of `_NEEDED`.
    """
    values = dict(source.values)
    ignored: list[str] = []
    for name in IGNORED:
        field = name.removeprefix("openai.")
        servers = values.get("openai")  # a file may list several servers of the policy
        setting_values = [values[name]] if name in values else []
        if isinstance(servers, list):
            setting_values += [
                server[field] for server in servers if isinstance(server, dict) and field in server
            ]
        if not setting_values:
            continue
        is_needed = name in _NEEDED and any(value not in (False, None) for value in setting_values)
        if source.kind != "file" or is_needed:
            raise _refusal(name, source.origin(name))
        ignored.append(name)
        values.pop(name, None)
        if isinstance(servers, list):
            servers = [{**entry} if isinstance(entry, dict) else entry for entry in servers]
            for server in servers:
                if isinstance(server, dict):
                    server.pop(field, None)
            values["openai"] = servers
    if ignored:
        reasons = "; ".join(f"{name} ({IGNORED[name]})" for name in ignored)
        logger.warning("%s: ignored, because it has no effect here: %s", source.name, reasons)
    return replace(source, values=values)


def _refusal(name: str, origin: str) -> SettingsError:
    return SettingsError(
        f"--{name} ({origin}): a setting of Atropos that has no effect here: {IGNORED[name]}"
    )
