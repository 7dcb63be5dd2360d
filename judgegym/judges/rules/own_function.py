"""Rules that are a user's function, `FILE.py:NAME`; only a worker loads and calls it.

    def score(response: str, task) -> float | bool | None:
        return response.count(task.prompt) == 0

It gets the response, and the task (`RuleTask`) if it has a second parameter, and may be `async`. It
returns a score from 0 to 1, True, False, or `None` if it cannot say.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from judgegym.judges.config.explaining import prompt_digest
from judgegym.judges.conversations.turns import Turn
from judgegym.judges.rules.finding import RuleFinding, cannot_say


@dataclass(frozen=True, slots=True)
class RuleTask:
    """Task with one response, as a user's function gets it.

    Attributes:
        prompt: the prompt; empty if unknown.
        response: the response.
        reference: the row's reference.
        context: the text that the response should be based on.
        trace: the turns of the response, with their tool calls; empty if it came as text.
        written: the policy's whole text if thinking was taken out of the response; otherwise empty.
    """

    prompt: str
    response: str
    reference: str | None
    context: str | None
    trace: tuple[Turn, ...]
    written: str


@lru_cache
def load_function(place: str, digest: str = "") -> Callable[[RuleTask], RuleFinding]:
    """Load the named function and return what applies it.

    Args:
        place: `FILE.py:NAME`; the file can import modules in its folder.
        digest: digest of the file's text, as the settings noted it; empty for any. So a worker that
            starts later cannot load another version of the function.

    Raises:
        ValueError: the file has another digest, or no function of this name. Exceptions of the file
            itself are raised, too.
    """
    file, _, name = place.rpartition(":")
    path = Path(file).expanduser().resolve()
    if digest and digest != prompt_digest(path.read_text("utf-8")):
        raise ValueError(
            f"{file} has changed since it was first loaded; begin a new run, or reload the server"
        )
    sys.path.insert(0, str(path.parent))
    function = runpy.run_path(str(path)).get(name)
    if not callable(function):
        raise ValueError(f"{file} has no function {name!r}")
    takes_task = len(inspect.signature(function).parameters) > 1

    def apply(task: RuleTask) -> RuleFinding:
        value: Any = function(task.response, task) if takes_task else function(task.response)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        return _to_finding(value)

    return apply


def _to_finding(value: Any) -> RuleFinding:
    """Convert the function's result to a finding.

    Raises:
        ValueError: a function may not return such a value.
    """
    if hasattr(value, "item"):  # numpy's and torch's numbers
        value = value.item()
    if value is None:
        return cannot_say("the function returned None")
    if not isinstance(value, bool | int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise ValueError(
            f"expected a number from 0 to 1, True, False or None, returned {value!r:.100}"
        )
    return RuleFinding(float(value), f"{value}", None, f"the function returned {value}")
