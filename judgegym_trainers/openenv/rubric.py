"""Judges as OpenEnv's rubrics.

    rubric = JudgeRubric("http://127.0.0.1:8400")

Guarantees: a failed judge is `None`, OpenEnv's "no reward", and never a number; status and
explanation of the judgment are in the observation's metadata. OpenEnv's own containers do not
handle `None`: `Gate` and `WeightedSum` raise a `TypeError`, and `Sequential` continues and returns
the score of the rubrics that follow. Wrap a composition with judges in `FailSafe`, whose reward is
`None` if a judge in it failed.

The place of a request's text is a path such as `observation.metadata.question`; several paths, of
which the first that is there counts; or a function of action and observation.

Source: openenv 0.10.0, `openenv.core.rubrics`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

from judgegym.judges.config.extras import report_missing_extra
from judgegym.judges.core.event_loop import run_blocking
from judgegym.llm.errors import SettingsError
from judgegym_trainers.scores.requests import FIELDS as NAMES
from judgegym_trainers.scores.requests import CompletionRow, Field, make_completion_row
from judgegym_trainers.scores.results import CompletionReward, NoRewardError
from judgegym_trainers.scores.sources import close, make_single_source

with report_missing_extra("openenv"):
    from openenv.core.rubrics import Rubric

__all__ = ["FailSafe", "JudgeRubric", "close"]

TextLocation: TypeAlias = str | Sequence[str] | Callable[[object, object], object]
"""The place of a value: a path, several paths, or a function of action and observation."""

_QUESTION_NAMES = ("messages", "prompt", "question")
_ANSWER_NAMES = ("completion", "response", "answer", "message", "text", "content")

_QUESTION_PLACES = ("observation", "observation.metadata", "action")
PROMPT = tuple(f"{place}.{name}" for place, name in product(_QUESTION_PLACES, _QUESTION_NAMES))
RESPONSE = tuple(f"action.{name}" for name in _ANSWER_NAMES)
TOOLS = ("observation.tools", "observation.metadata.tools")
FIELDS: Mapping[Field, TextLocation] = {
    name: (f"observation.{name}", f"observation.metadata.{name}", f"action.metadata.{name}")
    for name in NAMES
}


def check_locations(
    prompt: TextLocation, response: TextLocation, fields: Mapping[Field, TextLocation]
) -> None:
    """Check the paths to the texts of a request.

    Raises:
        SettingsError: a path begins with neither `action.` nor `observation.`, or a field is
            unknown.
    """
    unknown = [name for name in fields if name not in NAMES]
    if unknown:
        expected = ", ".join(NAMES)
        raise SettingsError(f"fields.{unknown[0]}: expected one of {expected}")
    for location in (prompt, response, *fields.values()):
        for path in _paths(location):
            if not path.startswith(("action.", "observation.")):
                raise SettingsError(
                    f"{path!r}: expected a path such as observation.prompt or action.completion"
                )


def make_row(
    action: object,
    observation: object,
    prompt: TextLocation = PROMPT,
    response: TextLocation = RESPONSE,
    fields: Mapping[Field, TextLocation] = FIELDS,
) -> CompletionRow:
    """Make the completion of a step, with its texts read from their places.

    Args:
        action: OpenEnv's action.
        observation: OpenEnv's observation.
        prompt: the place of the policy's prompt, text or messages.
        response: the place of the policy's completion.
        fields: the places of further fields, by the names of `POST /v1/score`; missing values are
            left out.
    """
    prompt_value, response_value = (
        _convert_messages(_find_value(location, action, observation))
        for location in (prompt, response)
    )
    if not prompt_value:
        return CompletionRow({}, "", "no prompt in " + _describe_location(prompt))
    if response_value is None:
        return CompletionRow({}, "", "no response in " + _describe_location(response))
    cells: dict[str, object] = {
        name: _find_value(location, action, observation) for name, location in fields.items()
    }
    cells["tools"] = _convert_messages(_find_value(TOOLS, action, observation))
    return make_completion_row(prompt_value, response_value, cells)


def _paths(location: TextLocation) -> Sequence[str]:
    if isinstance(location, str):
        return [location]
    if callable(location):
        return []
    return location


def _describe_location(location: TextLocation) -> str:
    return ", ".join(_paths(location)) or "what the function returned"


def _find_value(location: TextLocation, action: object, observation: object) -> object:
    """Return the first existing value; an empty one only if there is no other."""
    if callable(location):
        return location(action, observation)
    fallback: object = None
    for path in _paths(location):
        first, *names = path.split(".")
        value: object = action if first == "action" else observation
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if value is not None and not callable(value):
            fallback = value
            if value:
                return value
    return fallback


def _convert_messages(value: object) -> object:
    """Return text or messages unchanged; messages that are pydantic models become mappings."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return value
    return [
        turn.model_dump() if callable(getattr(turn, "model_dump", None)) else turn for turn in value
    ]


class JudgeRubric(Rubric):
    """A rubric whose score, from 0 to 1, is a judge's.

    In async code the score is awaited, as by `Environment._apply_rubric_async`; in a thread without
    an event loop, such as a synchronous `step`, the call blocks until it is ready. Rubrics with
    equal settings share their connections.

    Attributes:
        last_score: as in every rubric; `None` if the judge failed.
        last_result: reward, status, label and explanation of the last call.
        raises: whether a failure raises a `NoRewardError`; set by `FailSafe`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        prompt: TextLocation = PROMPT,
        response: TextLocation = RESPONSE,
        fields: Mapping[Field, TextLocation] = FIELDS,
        name: str = "judge",
        **settings: Any,
    ) -> None:
        """Judge with a reward server (`url`) or in this process (`judge`).

        Args:
            url: the URL of a reward server.
            prompt: the place of the prompt: a path such as `observation.prompt`, several paths, or
                a function of action and observation.
            response: the place of the response.
            fields: the places of reference, rubric, aspects, criteria, baseline and context.
            name: prefix of the keys in the observation's metadata.
            settings: further settings of `JudgeSource`: `judge`, the settings of a judge to run in
                this process, under the server's names, with `offline` at the stand-in; `token`,
                `token_env` and `mount` of the server; `invalid_completion_score` of an empty
                response, which is not judged; `timeout_s`, seconds for one attempt at the server;
                `deadline_s`, seconds within which a step gets its score, or fails.

        Raises:
            SettingsError: a setting is wrong, or neither or both of `url` and `judge` are given.
        """
        super().__init__()
        check_locations(prompt, response, fields)
        self.name = name
        self.raises = False
        self.last_result: CompletionReward | None = None
        self._locations = (prompt, response, fields)
        self._scoring = make_single_source(url, settings).get_shared_scorer()

    def forward(
        self, action: object, observation: object
    ) -> float | Awaitable[float | None] | None:
        """Return the score; in async code an awaitable of it."""
        scoring = self._score_step(action, observation)
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # a thread without an event loop
            return run_blocking(scoring)
        return scoring

    async def _score_step(self, action: object, observation: object) -> float | None:
        (result,) = await self._scoring.score_each(
            [make_row(action, observation, *self._locations)]
        )
        self.last_result = result
        metadata = getattr(observation, "metadata", None)
        if isinstance(metadata, dict):
            metadata[f"{self.name}_status"] = result.status
            metadata[f"{self.name}_explanation"] = result.explanation
            metadata[f"{self.name}_failed"] = result.is_failed
            metadata[f"{self.name}_invalid"] = result.is_invalid
        if result.is_failed and self.raises:
            raise result.error()
        return result.reward


class FailSafe(Rubric):
    """A composition of rubrics; its reward is `None` if a judge that it called failed."""

    def __init__(self, rubric: Rubric) -> None:
        """Wrap the outermost rubric: `FailSafe(Sequential(Gate(JudgeRubric(…)), …))`."""
        super().__init__()
        self.rubric = rubric

    def forward(
        self, action: object, observation: object
    ) -> float | Awaitable[float | None] | None:
        """Return the reward; an awaitable of it if an inner rubric is asynchronous."""
        for inner_rubric in self.rubrics():
            inner_rubric.last_score = None  # a rubric that is not reached has no score
            if isinstance(inner_rubric, JudgeRubric):
                inner_rubric.raises = True
        try:
            score = self.rubric(action, observation)
        except NoRewardError:
            return None
        return _await_score(score) if isinstance(score, Awaitable) else score


async def _await_score(score: Awaitable[float | None]) -> float | None:
    try:
        return await score
    except NoRewardError:
        return None
