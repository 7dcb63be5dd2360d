"""NeMo Gym's resources server: `/seed_session`, `/verify`, `/aggregate_metrics`, `/reverify_mode`.

A failed judge is answered with `_ng_failure_class`: the collector leaves such a row out and tries it again.

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
from judges.server.protocols.base import ChatTurn, Conversation, ProtocolReply, RequestBody, text_of
from judges.server.protocols.native import rubric_of

FAILURE = "_ng_failure_class"


class CreateParams(BaseModel):
    """What the policy was asked."""

    model_config = ConfigDict(extra="ignore", strict=True)

    input: Conversation


class OutputItem(BaseModel):
    """One item of a response: a message, or something that is not judged, such as reasoning or a tool call."""

    model_config = ConfigDict(extra="ignore", strict=True)

    type: str = "message"
    role: str = "assistant"
    content: str | list[dict[str, object]] | None = None


class Response(BaseModel):
    """What the policy answered."""

    model_config = ConfigDict(extra="ignore", strict=True)

    output: list[OutputItem]


class VerifyBody(RequestBody):
    """A rollout to be verified, with the row's own fields beside it."""

    responses_create_params: CreateParams
    response: Response
    question: str | None = None
    reference_answer: str | None = None
    rubric: str | dict[str, str] | None = None


class Verify:
    """`POST /verify`."""

    name = "nemo_gym"
    path = "/verify"
    body = VerifyBody

    def items(self, body: VerifyBody, raw: Mapping[str, JSON]) -> list[Item]:
        """The text of the answer's last message, to the row's question or else to the input.

        Raises:
            ValueError: the answer could not echo the row.
        """
        try:
            wire.dumps(raw)
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the row cannot be echoed: {type(error).__name__}: {error}") from error
        messages = [each for each in body.response.output if each.type == "message" and each.role == "assistant"]
        answer = ChatTurn(role="assistant", content=messages[-1].content).text if messages else ""
        rubric, levels = rubric_of(body.rubric)
        prompt = body.question if body.question is not None else text_of(body.responses_create_params.input)
        return [Item(prompt, (answer,), reference=body.reference_answer or None, rubric=rubric, levels=levels)]

    def reply(
        self, body: VerifyBody, raw: Mapping[str, JSON], results: Sequence[Sequence[ResponseScore]], *, fallback: float
    ) -> ProtocolReply:
        """The request echoed, with the reward and its components; or with the failure's class."""
        result = results[0][0]
        echo = dict(raw)
        if result.score is None:
            echo |= {"reward": 0.0, FAILURE: result.status, "_ng_failure_judge_error": result.explanation}
            return ProtocolReply(echo)
        components: dict[str, JSON] = {**result.components} or {"score": result.score}
        return ProtocolReply({**echo, "reward": result.score, "reward_components": components})


class AggregateBody(RequestBody):
    """Verified rollouts."""

    verify_responses: list[dict[str, object]]


def aggregate(body: AggregateBody) -> dict[str, JSON]:
    """The mean reward and the mean of each component over the rollouts that were judged, and how many were not."""
    judged = [each for each in body.verify_responses if FAILURE not in each]
    rewards = [reward for each in judged if (reward := _number(each.get("reward"))) is not None]
    metrics: dict[str, JSON] = {
        "num_responses": len(body.verify_responses),
        "num_failed": len(body.verify_responses) - len(judged),
    }
    if rewards:
        metrics["mean_reward"] = statistics.mean(rewards)
    by_name: dict[str, list[float]] = {}
    for each in judged:
        components = each.get("reward_components")
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
