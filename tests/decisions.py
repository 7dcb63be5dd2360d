"""A scripted gateway of a decision model: typed questions in, probabilities out.

    async with ScriptedEndpoint(gateway(lambda question, state: 0.9)) as endpoint:
        ...                            # judge_api="decisions", judge_base_url=decisions_url(endpoint)

The three wrappings are those that public clients read: bare answers (OpenRouter, Perplexity, Jev), an
object `result` beside `success` and `errors` (Workers AI), and camel case in `usage` (verifiers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from tests.scripted import Json, Reply, Script, ScriptedEndpoint

Wrapping = Literal["bare", "result", "camel"]
WRAPPINGS: tuple[Wrapping, ...] = ("bare", "result", "camel")
Says = Callable[[Json, Any], float]
"""The probability of yes, of a choice's first label, or of a score's best level, by question and state."""


def decisions_url(endpoint: ScriptedEndpoint) -> str:
    """The whole URL of an endpoint's decisions."""
    return f"{endpoint.base_url}/decisions"


def decision_settings(endpoint: ScriptedEndpoint, **settings: Any) -> dict[str, Any]:
    """A judge's settings that ask an endpoint for decisions."""
    return {
        "judge_api": "decisions",
        "judge_base_url": decisions_url(endpoint),
        "judge_model_name": "jev",
        **settings,
    }


def answer(question: Json, share: float) -> Json:
    """The answer to a question, with this probability of what `Says` says."""
    if question["type"] == "noul":
        return {"type": "noul", "noul": share}
    criteria = question["criteria"]
    others = (1 - share) / max(1, len(criteria) - 1)
    if question["type"] == "choice":
        probabilities = dict.fromkeys(criteria, others) | {next(iter(criteria)): share}
        likeliest = max(probabilities, key=lambda label: probabilities[label])
        return {"type": "choice", "choice": likeliest, "probabilities": probabilities}
    shares = [others] * (len(criteria) - 1) + [share]
    return {
        "type": "score",
        "score": sum(index * value for index, value in enumerate(shares)),
        "probabilities": {str(index): value for index, value in enumerate(shares)},
        "legend": dict(enumerate(criteria)),
        "confidence": max(shares),
    }


def wrap(answers: Mapping[str, Json], wrapping: Wrapping = "bare") -> Json:
    """A response's body with these answers."""
    usage: Json = {"input_tokens": 200, "output_tokens": 3, "cost": 0.00001}
    if wrapping == "camel":
        usage = {"inputTokens": 200, "outputTokens": 3}
    body: Json = {"model": "jev-1.14", "answers": dict(answers), "usage": usage}
    if wrapping == "result":
        return {"result": body, "success": True, "errors": [], "messages": []}
    return body


def gateway(says: Says, wrapping: Wrapping = "bare") -> Script:
    """A script that answers all questions; it raises for a request that is not of the form."""

    def script(request: Json, _: int) -> Reply:
        assert request.keys() == {"model", "state", "questions"}, request.keys()
        assert 1 <= len(request["questions"]) <= 128
        state = request["state"]
        answers = {
            name: answer(question, says(question, state))
            for name, question in request["questions"].items()
        }
        return Reply(body=wrap(answers, wrapping))

    return script
