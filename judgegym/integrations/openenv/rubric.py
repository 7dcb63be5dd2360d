"""Our judges as OpenEnv's rubrics.

    rubric = JudgeRubric("http://127.0.0.1:8400")

Guarantees: a failed judge is `None`, OpenEnv's "no reward", and never a number; what the judge said is in the
observation's metadata. OpenEnv's own containers do not know `None`: `Gate` and `WeightedSum` raise a `TypeError` over
it, and `Sequential` goes on and returns the score of the rubrics that follow. A composition with judges is therefore
wrapped in `FailSafe`, whose reward is `None` if a judge in it has failed.

Source: openenv 0.10.0, `openenv.core.rubrics`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from judges.config.extras import needs

with needs("openenv"):
    from openenv.core.rubrics import Rubric

from judgegym.integrations.openenv.reading import FIELDS, PROMPT, RESPONSE, Place, Places
from judgegym.integrations.scores.cells import Field
from judgegym.integrations.scores.numbers import check_finite
from judgegym.integrations.scores.scoring import Scored
from judgegym.integrations.scores.sources import SharedScorings, is_of_groups
from judges.core.background import run_blocking
from judges.llm.errors import SettingsError

if TYPE_CHECKING:
    from judges.server.settings.mount import JudgeMount

_SCORINGS = SharedScorings()


class JudgeFailedError(RuntimeError):
    """A judge inside a composition has failed; `FailSafe` turns it into `None`."""


class JudgeRubric(Rubric):
    """A rubric whose score, from 0 to 1, is that of a judge.

    In async code the score is awaited, as by `Environment._apply_rubric_async`; in a thread without an event loop, as
    a synchronous `step` has, the call blocks until it is there. Rubrics with equal settings share their connections.

    Attributes:
        last_score: as every rubric's; `None` if the judge failed.
        last_result: score, status, label and explanation of the last call.
        raises: whether a failure raises a `JudgeFailedError`; set by `FailSafe`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        judge: JudgeMount | Mapping[str, object] | None = None,
        token: str | None = None,
        mount: str = "",
        prompt: Place = PROMPT,
        response: Place = RESPONSE,
        fields: Mapping[Field, Place] = FIELDS,
        invalid_completion_score: float = 0.0,
        timeout_s: float = 150.0,
        deadline_s: float = 900.0,
        offline: bool = False,
        name: str = "judge",
    ) -> None:
        """Judge with a reward server (`url`) or in this process (`judge`).

        Args:
            url: the URL of a reward server.
            judge: the settings of a judge to run in this process, under the server's names.
            token: the server's bearer token.
            mount: the name of a judge at the server; empty for the judge at the root.
            prompt: where the prompt is: a path such as `observation.prompt`, several, or a function of action and
                observation.
            response: where the response is.
            fields: where reference, rubric, aspects, baseline and context are.
            invalid_completion_score: the score of an empty response, about which no judge is asked.
            timeout_s: seconds for one attempt at the server.
            deadline_s: seconds within which a step has its score; what has none by then has failed.
            offline: ask the stand-in instead of the endpoint of `judge`; its scores mean nothing.
            name: how the keys of the observation's metadata begin.

        Raises:
            SettingsError: a setting is wrong, or neither or both of `url` and `judge` are given.
        """
        super().__init__()
        check_finite(invalid_completion_score=invalid_completion_score)
        if judge is not None and is_of_groups(judge):
            raise SettingsError(
                "judge: a step has one response, and this judge compares several; set url to a reward server that "
                "gathers them (judgegym judge-server --judge listwise --group_size N)"
            )
        self.name = name
        self.raises = False
        self.last_result: Scored | None = None
        self._invalid = invalid_completion_score
        self._places = Places(prompt, response, fields)
        settings = judge if judge is None or isinstance(judge, Mapping) else judge.model_dump(exclude_unset=True)
        self._scoring = _SCORINGS.of(
            url, settings, token=token, mount=mount, timeout_s=timeout_s, deadline_s=deadline_s, offline=offline
        )

    def forward(self, action: object, observation: object) -> float | Awaitable[float | None] | None:
        """The score; in async code an awaitable of it."""
        scoring = self._score(action, observation)
        return scoring if _in_async_code() else run_blocking(scoring)

    async def _score(self, action: object, observation: object) -> float | None:
        ((result,),) = await self._scoring.score([self._places.request(action, observation)])
        self.last_result = result
        metadata = getattr(observation, "metadata", None)
        if isinstance(metadata, dict):
            metadata[f"{self.name}_status"] = result.status
            metadata[f"{self.name}_explanation"] = result.explanation
            metadata[f"{self.name}_failed"] = result.is_failed
            metadata[f"{self.name}_invalid"] = result.is_invalid
        if result.is_failed and self.raises:
            raise JudgeFailedError(f"{self.name}: no score ({result.status}): {result.explanation}")
        return self._invalid if result.is_invalid else result.score


class FailSafe(Rubric):
    """A composition of rubrics; its reward is `None` if a judge that it asked has failed."""

    def __init__(self, rubric: Rubric) -> None:
        """Wrap the outermost rubric: `FailSafe(Sequential(Gate(JudgeRubric(…)), …))`."""
        super().__init__()
        self.rubric = rubric

    def forward(self, action: object, observation: object) -> float | Awaitable[float | None] | None:
        """The reward; an awaitable of it where a rubric inside is asynchronous."""
        for inside in self.rubrics():
            inside.last_score = None  # one that is not reached has none
            if isinstance(inside, JudgeRubric):
                inside.raises = True
        try:
            score = self.rubric(action, observation)
        except JudgeFailedError:
            return None
        return _unless_failed(score) if isinstance(score, Awaitable) else score


async def _unless_failed(score: Awaitable[float | None]) -> float | None:
    try:
        return await score
    except JudgeFailedError:
        return None


def _in_async_code() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def close() -> None:
    """Close the connections of all rubrics now; otherwise they are closed when the process ends."""
    await _SCORINGS.close()


__all__ = ["FailSafe", "JudgeFailedError", "JudgeRubric", "close"]
