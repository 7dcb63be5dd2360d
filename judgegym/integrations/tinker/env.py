"""An environment of one turn: the prompt's tokens, the policy's answer, and no reward, which is the group's."""

from __future__ import annotations

from collections.abc import Sequence

import tinker
from tinker_cookbook.completers import StopCondition
from tinker_cookbook.renderers import Message as RenderedMessage
from tinker_cookbook.renderers import Renderer
from tinker_cookbook.rl.types import STOP_METRIC_PREFIX, Action, ActionExtra, Env, StepResult

from judgegym.integrations.tinker.answers import read_answer
from judgegym.llm.wire import Message


class OneTurnEnv(Env):
    """Asks the policy once. Single use, as the cookbook's environments are."""

    def __init__(self, messages: Sequence[Message], renderer: Renderer) -> None:
        """Ask with these messages, rendered for the policy."""
        self._messages = [RenderedMessage(role=message["role"], content=message["content"]) for message in messages]
        self._renderer = renderer

    async def initial_observation(self) -> tuple[tinker.ModelInput, StopCondition]:
        """The prompt's tokens, and where the policy is to stop."""
        return self._renderer.build_generation_prompt(self._messages), self._renderer.get_stop_sequences()

    async def step(self, action: Action, *, extra: ActionExtra | None = None) -> StepResult:
        """End the episode; the reward is 0, to which `compute_group_rewards` adds the judge's."""
        answer = read_answer(self._renderer, action, (extra or {}).get("stop_reason"))
        return StepResult(
            reward=0.0,
            episode_done=True,
            next_observation=tinker.ModelInput.empty(),
            next_stop_condition=self._renderer.get_stop_sequences(),
            metrics={"parse_success": float(answer.is_parsed), f"{STOP_METRIC_PREFIX}{answer.stop_reason}": 1.0},
            logs={"response": answer.choice.text},
        )
