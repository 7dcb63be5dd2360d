"""Aspect critique against scripted endpoints: rows, judges of known verdicts, and its command line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.judges.aspects import prompt
from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS, Aspect, AspectJudgeSettings
from judgegym.judges.config.judge import PromptLayout
from judgegym.judges.core.delimiters import Prompt
from judgegym.judges.core.tasks import JudgeTask
from tests.judged import Row, evaluate
from tests.scripted import Json, Reply, Script, ScriptedEndpoint

ASPECTS = tuple(SUPPORTED_ASPECTS)
NAMES = {aspect.definition: name for name, aspect in SUPPORTED_ASPECTS.items()}
_END = re.compile(r"\n\[End of Submission(?: [0-9a-f]{12})?\]$", re.MULTILINE)
_SECTION = re.compile(
    r"^\[(Input|Context|Reference|Submission|Criteria)(?: [0-9a-f]{12})?\]\n", re.MULTILINE
)

critique = partial(evaluate, AspectCritiqueEnv)
"""Evaluate aspect critique."""

Yes = Callable[[str, str], "bool | str | Reply"]
"""Whether a judge says yes, from the aspect's name (or definition) and the submission; or the text that it writes."""


def shown(request: Json) -> dict[str, str]:
    """The sections that a judge is shown, by their names."""
    _, *parts = _SECTION.split(_END.sub("", request["messages"][-1]["content"]))
    return {
        name: text.removesuffix("\n\n") for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def asked(request: Json) -> tuple[str, str]:
    """Aspect and submission of a judge's request."""
    sections = shown(request)
    return NAMES.get(sections["Criteria"], sections["Criteria"]), sections["Submission"]


def verdict(yes: bool | int, reason: str = "So it seems.") -> str:
    """A judge's answer."""
    return json.dumps({"reason": reason, "verdict": int(yes)})


def saying(yes: Yes) -> Script:
    """A judge by aspect and submission."""

    def script(request: Json, _: int) -> str | Reply:
        said = yes(*asked(request))
        return verdict(said) if isinstance(said, bool) else said

    return script


def voting(votes: Mapping[str, str]) -> Script:
    """A judge whose votes on an aspect are given as letters, one for each: y(es), n(o), anything else for none.

    The vote's number is its seed; with a single vote there is none, and the first letter counts.
    """

    def script(request: Json, _: int) -> str:
        letter = votes[asked(request)[0]][request.get("seed", 0)]
        return verdict(letter == "y", f"reason {letter}") if letter in "yn" else "I cannot say."

    return script


def votes_on(endpoint: ScriptedEndpoint) -> Counter[tuple[str, str]]:
    """How often an endpoint was asked about each aspect of each submission."""
    return Counter(asked(body) for body in endpoint.bodies)


def answered(number: int, **values: Any) -> Row:
    """A row with an answer of its own."""
    return {
        "id": f"r{number}",
        "question": f"Question {number}?",
        "answer": f"Answer {number}.",
        **values,
    }


def gold_row(number: int, **verdicts: int) -> Row:
    """A row whose answer has gold verdicts."""
    return answered(number, verdicts=verdicts)


def aspects(*wanted: str | dict[str, Any]) -> str:
    """The flag that asks for these aspects."""
    return f"--env.aspects={json.dumps(wanted)}"


def own(name: str, **values: Any) -> dict[str, Any]:
    """An aspect of one's own, whose definition is its name as a question."""
    return {"name": name, "definition": f"Is it {name}?", **values}


def aspect_prompt(
    definition: str,
    submission: str,
    question: str | None = None,
    context: str | None = None,
    reference: str | None = None,
    *,
    layout: PromptLayout = "published",
    system_prompt: str | None = None,
    system: str = "",
) -> Prompt:
    """What a judge is shown of these texts."""
    settings = AspectJudgeSettings(judge_prompt_layout=layout, judge_system_prompt=system_prompt)
    task = JudgeTask(question or "", (submission,), reference, context=context)
    return prompt.aspect_prompt(
        task, Aspect(name="own", definition=definition), settings, system=system
    )
