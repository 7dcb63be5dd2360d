"""From OpenEnv's action and observation to a request for a score.

Where a text is, is said by a path such as `observation.metadata.question`, by several of which the first that is there
counts, or by a function of action and observation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from judgegym.integrations.scores.requests import FIELDS as NAMES
from judgegym.integrations.scores.requests import CellError, Conversation, Field, conversation_json, fields_of
from judgegym.integrations.scores.scoring import RefusedError, Request
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

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
