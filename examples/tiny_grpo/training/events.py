"""The events that a seed's process prints on standard output, a line of JSON each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import TypeAdapter

from examples.tiny_grpo.curve import Step
from judgegym.llm import wire


@dataclass(frozen=True)
class ServedEvent:
    """The policy is served at this URL, and the trainer has registered: environments may start."""

    url: str
    kind: Literal["served"] = "served"


@dataclass(frozen=True)
class StepEvent:
    """A step was made, and its weights are served.

    Attributes:
        step: the numbers of the step.
        groups: the number of groups in the batch.
        recomputed: share of the tokens whose logprob the trainer recomputes within 1e-3, before the
            step.
    """

    step: Step
    groups: int
    recomputed: float
    kind: Literal["trained"] = "trained"


@dataclass(frozen=True)
class FinishedEvent:
    """All steps were made; `groups` counts all groups that the environment sent, used or not."""

    groups: int
    kind: Literal["finished"] = "finished"


Event = ServedEvent | StepEvent | FinishedEvent
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def write_event(event: Event) -> str:
    """Return the line of an event."""
    return wire.dumps(asdict(event)).decode()


def read_event(line: bytes) -> Event:
    """Read an event from a line."""
    return _EVENT.validate_json(line)
