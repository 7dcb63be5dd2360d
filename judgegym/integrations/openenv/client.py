"""OpenEnv's client of a single-turn environment.

async with SingleTurnClient(base_url="http://127.0.0.1:8000") as client:
    asked = await client.reset(seed=1)
    result = await client.step(CompletionAction(completion=policy(asked.observation.messages)))
    result.reward     # None: the judge failed
"""

from __future__ import annotations

from typing import Any

from judgegym.judges.config.extras import needs

with needs("openenv"):
    from openenv.core import EnvClient
    from openenv.core.client_types import StepResult

from judgegym.integrations.openenv.models import CompletionAction, RowObservation, RowState


class SingleTurnClient(EnvClient[CompletionAction, RowObservation, RowState]):
    """A session with the server, over one WebSocket."""

    def _step_payload(self, action: CompletionAction) -> dict[str, Any]:
        return dict(action.model_dump(exclude_none=True))

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[RowObservation]:
        reward, done = payload.get("reward"), bool(payload.get("done", False))
        observation = RowObservation(**{**payload.get("observation", {}), "reward": reward, "done": done})
        return StepResult(observation=observation, reward=reward, done=done, metadata=observation.metadata)

    def _parse_state(self, payload: dict[str, Any]) -> RowState:
        return RowState(**payload)


__all__ = ["CompletionAction", "RowObservation", "RowState", "SingleTurnClient"]
