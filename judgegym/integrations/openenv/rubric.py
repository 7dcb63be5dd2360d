"""Our judges as OpenEnv's rubrics.

    rubric = JudgeRubric("http://127.0.0.1:8400")

Guarantees: a failed judge is `None`, OpenEnv's "no reward", and never a number; what the judge said is in the
observation's metadata. OpenEnv's own containers do not know `None`: `Gate` and `WeightedSum` raise a `TypeError` over
it, and `Sequential` goes on and returns the score of the rubrics that follow. A composition with judges is therefore
wrapped in `FailSafe`, whose reward is `None` if a judge in it has failed.

Where a text of a request is, is said by a path such as `observation.metadata.question`, by several of which the first
that is there counts, or by a function of action and observation.

Source: openenv 0.10.0, `openenv.core.rubrics`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, cast

from judgegym.integrations.scores.requests import FIELDS as NAMES
from judgegym.integrations.scores.requests import (
    CellError,
    Conversation,
    Field,
    RefusedError,
    Request,
    conversation_json,
    fields_of,
)
from judgegym.integrations.scores.results import CompletionReward, NoRewardError, check_finite
from judgegym.integrations.scores.sources import (
    DEADLINE_S,
    TIMEOUT_S,
    JudgeSource,
    close,
    refuse_groups,
    shared_scoring,
)
from judgegym.judges.config.extras import needs
from judgegym.judges.core.event_loop import run_blocking
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

with needs("openenv"):
    from openenv.core.rubrics import Rubric

if TYPE_CHECKING:
    from judgegym.server.settings import JudgeMount

__all__ = ["FailSafe", "JudgeRubric", "close"]

Place: TypeAlias = str | Sequence[str] | Callable[[object, object], object]
"""Where a value is: a path, several paths, or a function of action and observation."""

_QUESTION_NAMES = ("messages", "prompt", "question")
_ANSWER_NAMES = ("completion", "response", "answer", "message", "text", "content")

PROMPT = tuple(
    f"{place}.{name}" for place in ("observation", "observation.metadata", "action") for name in _QUESTION_NAMES
)
RESPONSE = tuple(f"action.{name}" for name in _ANSWER_NAMES)
FIELDS: Mapping[Field, Place] = {
    name: (f"observation.{name}", f"observation.metadata.{name}", f"action.metadata.{name}") for name in NAMES
}


@dataclass(frozen=True, slots=True)
class TextLocations:
    """Where the texts of a request are.

    Attributes:
        prompt: what the policy was asked, as text or messages.
        response: what it has answered.
        fields: what else the judge is shown, by the names of `POST /v1/score`; what is missing is left out.
    """

    prompt: Place = PROMPT
    response: Place = RESPONSE
    fields: Mapping[Field, Place] = field(default_factory=lambda: FIELDS)

    def __post_init__(self) -> None:
        """Check the paths.

        Raises:
            SettingsError: one begins with neither `action.` nor `observation.`, or a field is unknown.
        """
        unknown = [name for name in self.fields if name not in NAMES]
        if unknown:
            raise SettingsError(f"fields.{unknown[0]}: expected one of {', '.join(NAMES)}")
        for place in (self.prompt, self.response, *self.fields.values()):
            for path in _paths(place):
                if not path.startswith(("action.", "observation.")):
                    raise SettingsError(f"{path!r}: expected a path such as observation.prompt or action.completion")

    def request(self, action: object, observation: object) -> Request | RefusedError:
        """The body of `POST /v1/score`, or why there is none."""
        prompt = _found(self.prompt, action, observation)
        response = _found(self.response, action, observation)
        if not prompt:
            return RefusedError(f"no prompt in {_named(self.prompt)}")
        if response is None:
            return RefusedError(f"no response in {_named(self.response)}")
        try:
            cells = {name: _found(place, action, observation) for name, place in self.fields.items()}
            return {"prompt": _conversation(prompt), "response": _conversation(response), **fields_of(cells)}
        except CellError as error:
            return RefusedError(str(error))


def _paths(place: Place) -> Sequence[str]:
    return [place] if isinstance(place, str) else [] if callable(place) else place


def _named(place: Place) -> str:
    return ", ".join(_paths(place)) or "what the function returned"


def _found(place: Place, action: object, observation: object) -> object:
    """The first value that is there; an empty one only if there is no other."""
    if callable(place):
        return place(action, observation)
    found: object = None
    for path in _paths(place):
        first, *names = path.split(".")
        value: object = action if first == "action" else observation
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if value is not None and not callable(value):
            found = value
            if value:
                return value
    return found


def _conversation(value: object) -> JSON:
    """Text, or messages: mappings, or pydantic models of role and content.

    Raises:
        CellError: it is neither.
    """
    if isinstance(value, str):
        return value
    turns = [_turn(turn) for turn in value] if isinstance(value, Sequence) and not isinstance(value, bytes) else []
    if not turns or not all(isinstance(turn, Mapping) for turn in turns):
        raise CellError(f"expected text or messages, found {type(value).__name__}")
    return conversation_json(cast(Conversation, turns))


def _turn(turn: object) -> object:
    dump = getattr(turn, "model_dump", None)
    return dump() if callable(dump) else turn


class JudgeRubric(Rubric):
    """A rubric whose score, from 0 to 1, is that of a judge.

    In async code the score is awaited, as by `Environment._apply_rubric_async`; in a thread without an event loop, as
    a synchronous `step` has, the call blocks until it is there. Rubrics with equal settings share their connections.

    Attributes:
        last_score: as every rubric's; `None` if the judge failed.
        last_result: reward, status, label and explanation of the last call.
        raises: whether a failure raises a `NoRewardError`; set by `FailSafe`.
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
        timeout_s: float = TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
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
        refuse_groups(judge)
        self.name = name
        self.raises = False
        self.last_result: CompletionReward | None = None
        self._invalid = invalid_completion_score
        self._places = TextLocations(prompt, response, fields)
        source = JudgeSource(
            url, judge, token=token, mount=mount, timeout_s=timeout_s, deadline_s=deadline_s, offline=offline
        )
        self._scoring = shared_scoring(source)

    def forward(self, action: object, observation: object) -> float | Awaitable[float | None] | None:
        """The score; in async code an awaitable of it."""
        scoring = self._score(action, observation)
        return scoring if _in_async_code() else run_blocking(scoring)

    async def _score(self, action: object, observation: object) -> float | None:
        ((result,),) = await self._scoring.score([self._places.request(action, observation)], self._invalid)
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
        except NoRewardError:
            return None
        return _unless_failed(score) if isinstance(score, Awaitable) else score


async def _unless_failed(score: Awaitable[float | None]) -> float | None:
    try:
        return await score
    except NoRewardError:
        return None


def _in_async_code() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
