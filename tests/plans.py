"""Reads what `--plan` prints."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LABEL = 19
_COUNT = re.compile(r"([\d,]+)(?: \(([\d,]+) to ([\d,]+)\))?\Z")
_COST = re.compile(r"\$([\d.,]+)")


@dataclass(frozen=True)
class Count:
    """A number with its bounds, which are the same where it is exact."""

    usual: int
    low: int
    high: int

    def __add__(self, other: Count) -> Count:
        return Count(self.usual + other.usual, self.low + other.low, self.high + other.high)


@dataclass
class PlannedModel:
    """What a plan says of one model."""

    calls: Count
    prompt_tokens: Count = Count(0, 0, 0)
    reply_tokens: Count = Count(0, 0, 0)
    cost: float | None = None


@dataclass
class PrintedPlan:
    """A plan: its models by name, its other lines by label, and its sentences."""

    models: dict[str, PlannedModel] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def cost(self) -> float | None:
        return _dollars(self.words["cost"])

    @property
    def calls(self) -> Count:
        return sum((model.calls for model in self.models.values()), Count(0, 0, 0))

    @property
    def prompt_tokens(self) -> int:
        return sum(model.prompt_tokens.usual for model in self.models.values())


def read_plan(out: str) -> PrintedPlan:
    """The plan in the output of a command."""
    numbers, *notes = out.split("\n\n")
    plan = PrintedPlan(notes=[" ".join(note.split()) for note in notes])
    model: PlannedModel | None = None
    for label, words in _pairs(numbers.splitlines()):
        if label.endswith(" calls"):
            model = plan.models[label.removesuffix(" calls")] = PlannedModel(_count(words))
        elif label == "  cost" and model is not None:
            model.cost = _dollars(words)
        elif label.startswith("  ") and model is not None:
            setattr(model, label.strip().replace(" ", "_"), _count(words))
        else:
            plan.words[label] = f"{plan.words[label]}; {words}" if label in plan.words else words
    return plan


def _pairs(lines: list[str]) -> list[tuple[str, str]]:
    """Labels with their words, of which the first may stand in a line of its own."""
    found: list[tuple[str, str]] = []
    for line in lines:
        assert len(line) <= 80, line
        label, words = line[:_LABEL], line[_LABEL + 2 :]
        if not line[_LABEL : _LABEL + 2].strip() and words:
            if label.strip():
                found.append((label.rstrip(), words))
            else:
                found[-1] = (found[-1][0], f"{found[-1][1]} {words}".strip())
        else:
            found.append((line.rstrip(), ""))
    return found


def _count(words: str) -> Count:
    found = _COUNT.match(words)
    assert found is not None, words
    usual, low, high = (int((each or found[1]).replace(",", "")) for each in found.groups())
    return Count(usual, low, high)


def _dollars(words: str) -> float | None:
    found = _COST.match(words)
    return None if found is None else float(found[1].replace(",", ""))
