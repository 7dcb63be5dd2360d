"""What travels between OpenEnv's client and server of a single-turn environment."""

from __future__ import annotations

from typing import Any

from judgegym.judges.config.extras import needs

with needs("openenv"):
    from openenv.core.env_server.types import Action, Observation, State

from pydantic import Field


class CompletionAction(Action):
    """A completion of the policy."""

    completion: str = Field(description="the text of the completion")
    reasoning: str | None = Field(default=None, description="reasoning that the endpoint returned apart from the text")
    finish_reason: str | None = Field(default=None, description="`length` if the text was cut off")
    uid: str | None = Field(
        default=None, description="the row that it answers; needed for POST /step, which has no session"
    )


class RowObservation(Observation):
    """A row after `reset`, the outcome of its completion after `step`.

    The reward is `None` where the judge failed; then `metadata` has `judge_failed`, and why in `explanation`.
    """

    messages: list[dict[str, Any]] = Field(default_factory=list, description="what the policy is asked")
    uid: str = Field(default="", description="the row's id")


class RowState(State):
    """Where a session is."""

    environment: str = Field(default="", description="the environment's name")
    split: str = Field(default="", description="train or eval")
    uid: str | None = Field(default=None, description="the row of the episode")
    done: bool = Field(default=False, description="whether the episode has ended")
