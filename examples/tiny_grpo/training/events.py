"""What the process of a seed says on its standard output: a line of JSON for each event."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import TypeAdapter

from examples.tiny_grpo.curve import Step
from judgegym.llm import wire


@dataclass(frozen=True)
class ServedEvent:
    """The policy is served at this URL, and the trainer has registered: environments may come."""

    url: str
    kind: Literal["served"] = "served"


@dataclass(frozen=True)
class StepEvent:
    """A step was made, and its weights are served.

    Attributes:
        step: the numbers of the step.
        groups: how many the batch had.
        recomputed: share of the tokens whose logprob the trainer recomputes within 1e-3, before the
            step.
    """

    step: Step
    groups: int
    recomputed: float
    kind: Literal["trained"] = "trained"


@dataclass(frozen=True)
class FinishedEvent:
    """All steps were made; `groups` is how many groups the environment has sent, those of no batch included."""

    groups: int
    kind: Literal["finished"] = "finished"


Event = ServedEvent | StepEvent | FinishedEvent
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def write_event(event: Event) -> str:
    """Return the line of an event."""
    return wire.dumps(asdict(event)).decode()


def read_event(line: bytes) -> Event:
    """Read a line."""
    return _EVENT.validate_json(line)
