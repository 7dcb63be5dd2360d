"""NeMo Gym's resources server: `/seed_session`, `/verify`, `/aggregate_metrics`, `/reverify_mode`.

A failed judge is reported by `_ng_failure_class`: the collector leaves such a row out and tries it again.

Source: NeMo Gym 0.5.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from judges.llm import wire
from judges.llm.wire import JSON
from judges.server.items import Item, ResponseScore
from judges.server.protocols.base import ChatTurn, ProtocolReply, RequestBody, TextOrMessages, text_of
from judges.server.protocols.native import rubric_of

FAILURE = "_ng_failure_class"


class CreateParams(BaseModel):
    """The request that was sent to the policy."""

    model_config = ConfigDict(extra="ignore", strict=True)

    input: TextOrMessages


class OutputItem(BaseModel):
    """An item of a response: a message, or reasoning or a tool call, which are not judged."""

    model_config = ConfigDict(extra="ignore", strict=True)

    type: str = "message"
    role: str = "assistant"
    content: str | list[dict[str, object]] | None = None


class PolicyResponse(BaseModel):
    """The response of the policy."""

    model_config = ConfigDict(extra="ignore", strict=True)

    output: list[OutputItem]


class VerifyBody(RequestBody):
    """A rollout to verify, with the fields of its dataset row."""

    responses_create_params: CreateParams
    response: PolicyResponse
    question: str | None = None
    reference_answer: str | None = None
    rubric: str | dict[str, str] | None = None


class NemoGym:
    """`POST /verify`."""

    name = "nemo_gym"
    path = "/verify"
    body = VerifyBody

    def items(self, body: VerifyBody, raw: Mapping[str, JSON]) -> list[Item]:
        """The last message's text as the response; the row's question, else the input, as the prompt.

        Raises:
            ValueError: the row cannot be echoed as JSON.
        """
        try:
            wire.dumps(raw)
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the row cannot be echoed: {type(error).__name__}: {error}") from error
        messages = [item for item in body.response.output if item.type == "message" and item.role == "assistant"]
        answer = ChatTurn(role="assistant", content=messages[-1].content).text if messages else ""
        rubric, levels = rubric_of(body.rubric)
        prompt = body.question if body.question is not None else text_of(body.responses_create_params.input)
        return [Item(prompt, (answer,), reference=body.reference_answer or None, rubric=rubric, levels=levels)]

    def reply(
        self, body: VerifyBody, raw: Mapping[str, JSON], results: Sequence[Sequence[ResponseScore]], *, fallback: float
    ) -> ProtocolReply:
        """The request's fields with the reward and its components, or with the failure's class."""
        result = results[0][0]
        echo = dict(raw)
        if result.score is None:
            echo |= {"reward": 0.0, FAILURE: result.status, "_ng_failure_judge_error": result.explanation}
            return ProtocolReply(echo)
        components: dict[str, JSON] = {**result.components} or {"score": result.score}
        return ProtocolReply({**echo, "reward": result.score, "reward_components": components})


class AggregateBody(RequestBody):
    """Verified rollouts, to be aggregated."""

    verify_responses: list[dict[str, object]]


def aggregate(body: AggregateBody) -> dict[str, JSON]:
    """Means of the reward and of each component over the judged rollouts, and the number of failed ones."""
    judged = [rollout for rollout in body.verify_responses if FAILURE not in rollout]
    rewards = [reward for rollout in judged if (reward := _number(rollout.get("reward"))) is not None]
    metrics: dict[str, JSON] = {
        "num_responses": len(body.verify_responses),
        "num_failed": len(body.verify_responses) - len(judged),
    }
    if rewards:
        metrics["mean_reward"] = statistics.mean(rewards)
    by_name: dict[str, list[float]] = {}
    for rollout in judged:
        components = rollout.get("reward_components")
        for name, value in components.items() if isinstance(components, Mapping) else ():
            if (number := _number(value)) is not None:
                by_name.setdefault(str(name), []).append(number)
    for name, values in by_name.items():
        metrics[f"mean_{name}"] = statistics.mean(values)
    return metrics


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
