"""OpenEnv's client of a single-turn environment.

async with SingleTurnClient(base_url="http://127.0.0.1:8000") as client:
    asked = await client.reset(seed=1)
    result = await client.step(CompletionAction(completion=policy(asked.observation.messages)))
    result.reward     # None: the judge failed
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from judgegym.judges.config.extras import report_missing_extra

with report_missing_extra("openenv"):
    from openenv.core import EnvClient
    from openenv.core.client_types import StepResult
    from openenv.core.env_server.types import Action, Observation, State

__all__ = ["CompletionAction", "RowObservation", "RowState", "SingleTurnClient"]


class CompletionAction(Action):
    """A completion of the policy."""

    completion: str = Field(description="the text of the completion")
    reasoning: str | None = Field(
        default=None, description="reasoning that the endpoint returned apart from the text"
    )
    finish_reason: str | None = Field(default=None, description="`length` if the text was cut off")
    uid: str | None = Field(
        default=None,
        description="the row that it answers; needed for POST /step, which has no session",
    )


class RowObservation(Observation):
    """A row after `reset`; the result of its completion after `step`.

    The reward is `None` if the judge failed; then `metadata` has `judge_failed`, and the reason in
    `explanation`.
    """

    messages: list[dict[str, Any]] = Field(
        default_factory=list, description="what the policy is asked"
    )
    uid: str = Field(default="", description="the row's id")


class RowState(State):
    """The state of a session."""

    environment: str = Field(default="", description="the environment's name")
    split: str = Field(default="", description="train or eval")
    uid: str | None = Field(default=None, description="the row of the episode")
    done: bool = Field(default=False, description="whether the episode has ended")


class SingleTurnClient(EnvClient[CompletionAction, RowObservation, RowState]):
    """A session with the server, over one WebSocket."""

    def _step_payload(self, action: CompletionAction) -> dict[str, Any]:
        return dict(action.model_dump(exclude_none=True))

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[RowObservation]:
        reward = payload.get("reward")
        done = bool(payload.get("done", False))
        observation = RowObservation(
            **{**payload.get("observation", {}), "reward": reward, "done": done}
        )
        return StepResult(
            observation=observation, reward=reward, done=done, metadata=observation.metadata
        )

    def _parse_state(self, payload: dict[str, Any]) -> RowState:
        return RowState(**payload)
