"""A sample as verl's reward workers get it: a batch of one, with everything that is known of its row.

Source: verl 0.9.1, `AgentLoopWorker._compute_score` (all fields of the row, with `uid` and `raw_prompt`) and
`RewardLoopManager.compute_rm_score` (a deployed reward model that shares its GPUs: the trainer of v1 sends `raw_prompt`
alone).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from judgegym.integrations.scores.requests import (
    CellError,
    CompletionRow,
    Conversation,
    conversation_json,
    fields_in,
    group_id,
    plain,
)
from judgegym.integrations.scores.results import TrainerReward
from judgegym.llm.wire import JSON
from judgegym.server.protocols.chat_tokens import plain_prompt

LONGEST = 500
"""How much of an explanation is kept: verl makes an array of all of a batch, each as long as the longest."""
PROMPTS = ("question", "prompt")
"""The fields of `extra_info` that have the question, where it is not the policy's prompt."""


@dataclass(frozen=True, slots=True)
class VerlSample:
    """A sample.

    Attributes:
        group: the id of its group: verl's `uid` of the prompt, or else the prompt itself.
        has_uid: whether verl has said its `uid`.
        is_validation: whether it is known to be one of a validation.
        row: prompt, fields and response.
    """

    group: str
    has_uid: bool
    is_validation: bool
    row: CompletionRow


def sample_of(data: Any, tokenizer: Any, *, is_environment: bool) -> VerlSample:
    """Read a sample; of an agent's several outputs, the last, as verl's own managers do.

    Args:
        data: verl's `DataProto`.
        tokenizer: the policy's.
        is_environment: whether `extra_info.uid` names a row of an environment, which has all other fields.
    """
    item = data[-1:][0]
    fields: Mapping[str, Any] = item.non_tensor_batch
    prompt = None if _messages(fields.get("raw_prompt")) is not None else _prompt(item, tokenizer)
    sample = sample_of_row(fields, _response(item, tokenizer), prompt=prompt, is_environment=is_environment)
    return replace(sample, is_validation=True) if data.meta_info.get("validate") else sample


def sample_of_row(
    fields: Mapping[str, Any], response: str, *, prompt: JSON = None, is_environment: bool = False
) -> VerlSample:
    """Read a sample in the fields of its row.

    Args:
        fields: the columns of the row, with verl's `uid` and `raw_prompt`.
        response: the policy's text.
        prompt: the policy's prompt, where `raw_prompt` has no messages.
        is_environment: whether `extra_info.uid` names a row of an environment, which has all other fields.
    """
    info = fields.get("extra_info")
    info = info if isinstance(info, Mapping) else {}
    truth = fields.get("reward_model")
    truth = truth.get("ground_truth") if isinstance(truth, Mapping) else None
    prompt = prompt_in(info) or _messages(fields.get("raw_prompt")) or prompt
    uid = group_id(plain(fields.get("uid")))
    split = info.get("split")
    return VerlSample(
        group=f"{prompt!r}\n{truth!r}" if uid is None else str(uid),
        has_uid=uid is not None,
        is_validation=isinstance(split, str) and split != "train",
        row=_row_of_environment(info, response) if is_environment else _row(prompt, info, truth, response),
    )


def extra_info(worth: TrainerReward) -> dict[str, float | str]:
    """What verl logs of a sample (`reward_extra_info`); all samples have the same keys."""
    said = worth.rewarded
    return {**worth.numbers, "judge_status": said.status, "judge_explanation": said.explanation[:LONGEST]}


def prompt_in(info: Mapping[str, object]) -> JSON:
    """The question in `extra_info`; `None` if there is none."""
    for name in PROMPTS:
        value = info.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if (messages := _messages(value)) is not None:
            return messages
    return None


def _messages(value: object) -> JSON:
    turns = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(turns, Sequence) and turns and all(isinstance(turn, Mapping) for turn in turns):
        return conversation_json(cast(Conversation, turns))
    return None


def _row(prompt: JSON, info: Mapping[str, object], truth: object, response: str) -> CompletionRow:
    try:
        return CompletionRow({"prompt": prompt, **fields_in(info, truth)}, response)
    except CellError as refusal:
        return CompletionRow({"prompt": prompt}, response, str(refusal))


def _row_of_environment(info: Mapping[str, object], response: str) -> CompletionRow:
    uid = info.get("uid")
    return CompletionRow({"uid": uid if isinstance(uid, str) else None}, response)


def _response(item: Any, tokenizer: Any) -> str:
    """The response, decoded as verl's own managers do."""
    ids, mask = item.batch["responses"], item.batch["attention_mask"]
    length = item.non_tensor_batch.get("response_len")  # several outputs of one agent are padded together
    count = int(mask[-ids.shape[-1] :].sum()) if length is None else int(length)
    return str(tokenizer.decode(ids[:count], skip_special_tokens=True))


def _prompt(item: Any, tokenizer: Any) -> str:
    """The prompt, decoded; its tokens are padded on either side."""
    ids, mask = item.batch["prompts"], item.batch["attention_mask"]
    length = item.non_tensor_batch.get("prompt_len")
    kept = ids[mask[: ids.shape[-1]].bool()] if length is None else ids[: int(length)]
    return plain_prompt(tokenizer.decode(kept, skip_special_tokens=False))
