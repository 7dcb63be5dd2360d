"""Rubric-absolute against scripted endpoints: rows, judges of known scores, and its command line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.judges.config.judge import PromptLayout
from judgegym.judges.core.delimiters import Prompt
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.rubric_scores import RubricFormat
from judgegym.judges.rubrics import prompt
from judgegym.judges.rubrics.prompt import Rubric, RubricJudgeSettings
from tests.command import ROOT
from tests.judged import Row, evaluate
from tests.scripted import Json, Reply, Script, completion

VICUNA = ROOT.parent / "shared" / "data" / "rubric_absolute" / "vicuna_eval.jsonl"
needs_vicuna = pytest.mark.skipif(
    not VICUNA.is_file(), reason="the real data is not there: ../shared/data/rubric_absolute"
)
_SECTION = re.compile(
    r"^### (Instruction|Reference Response|Score Rubric|Response To Evaluate)(?: "
    r"[0-9a-f]{12})?\n\n",
    re.MULTILINE,
)
_CLOSING = "\n\n---\n\nPlease evaluate the response according to the score rubric above."

rubric = partial(evaluate, RubricAbsoluteEnv)
"""Evaluate rubric-absolute."""

Given = Callable[[str, str], "int | str | Reply"]
"""The score that a judge gives, from instruction and response; or the text that it writes."""


def shown(request: Json) -> dict[str, str]:
    """The sections that a judge is shown, by their names."""
    content = request["messages"][-1]["content"]
    assert content.endswith(_CLOSING)
    _, *parts = _SECTION.split(content.removesuffix(_CLOSING))
    return {
        name: text.removesuffix("\n\n") for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def system(request: Json) -> str:
    """The system message of a request."""
    assert request["messages"][0]["role"] == "system"
    text: str = request["messages"][0]["content"]
    return text


def score(value: int, feedback: str = "So it seems.") -> str:
    """A judge's answer."""
    return f"[FEEDBACK] {feedback}\n[SCORE] {value}"


def giving(given: Given) -> Script:
    """A judge by instruction and response."""

    def script(request: Json, _: int) -> str | Reply:
        sections = shown(request)
        said = given(sections["Instruction"], sections["Response To Evaluate"])
        return score(said) if isinstance(said, int) else said

    return script


def by_number(scores: Mapping[int, int | str]) -> Script:
    """A judge by the number of the row of `task` or `labelled` that it is shown."""

    def given(instruction: str, response: str) -> int | str:
        found = re.search(r"\d+", instruction)
        assert found is not None
        return scores[int(found.group())]

    return giving(given)


def in_samples(scores: Mapping[int, int | str]) -> Script:
    """A judge by the number of the judgment, which is its seed."""

    def script(request: Json, _: int) -> str:
        said = scores[request["seed"]]
        return score(said) if isinstance(said, int) else said

    return script


def task(number: int, **values: Any) -> Row:
    """A row that a policy answers."""
    return {"id": f"r{number}", "instruction": f"Do {number}.", "rubric": "Is it good?", **values}


def labelled(number: int, gold: Any, **values: Any) -> Row:
    """A row whose response has a gold score."""
    return task(number, response=f"Response {number}.", score=gold, **values)


def weighed(value: int, probabilities: Mapping[str, float]) -> Reply:
    """A judge's answer with its tokens: the score's own has these alternatives."""
    top = [{"token": token, "logprob": math.log(share)} for token, share in probabilities.items()]
    words = ("[FEEDBACK]", " So", " it", " seems", ".\n", "[SCORE]", " ")
    tokens = [{"token": word, "logprob": -0.1, "top_logprobs": []} for word in words]
    tokens.append({"token": str(value), "logprob": -0.5, "top_logprobs": top})
    body = completion(score(value))
    body["choices"][0]["logprobs"] = {"content": tokens}
    return Reply(body=body)


def rubric_prompt(
    instruction: str,
    response: str,
    rubric: Rubric,
    reference: str | None = None,
    *,
    output_format: RubricFormat = "feedback_score",
    layout: PromptLayout = "published",
    system_prompt: str | None = None,
    system: str = "",
) -> Prompt:
    """What a judge is shown of these texts."""
    settings = RubricJudgeSettings(
        output_format=output_format, judge_prompt_layout=layout, judge_system_prompt=system_prompt
    )
    task = rubric_task(instruction, response, rubric, reference)
    return prompt.rubric_prompt(rubric, task, settings, system=system)


def rubric_task(
    instruction: str, response: str, rubric: Rubric, reference: str | None = None
) -> JudgeTask:
    """The judge's task of a response; the scale is that of the judge's settings."""
    return JudgeTask(
        instruction, (response,), reference, rubric.criteria, tuple(rubric.levels.items())
    )
