"""Estimate the calls and the cost of a peer evaluation before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from judgegym.eval_environments.models.endpoints import ModelSettings
from judgegym.llm.usage import Usage

_ANSWER_TOKENS, _JUDGMENT_TOKENS = 500, 150
"""The assumed lengths of an answer and of a judgment."""
_CHARACTERS_A_TOKEN = 4


def calls_and_price(
    candidates: Sequence[ModelSettings],
    judges: Sequence[ModelSettings],
    queries: Iterable[tuple[str, str]],
    *,
    rounds: int,
    include_self: bool,
) -> str:
    """Return the number of calls and the approximate cost, in one line.

    Args:
        candidates: the models that answer.
        judges: the models that judge.
        queries: each query with its rubric.
        rounds: rounds of critique, at most.
        include_self: whether models judge themselves.
    """
    answers = judgments = 0
    usages: dict[str, Usage] = {}  # by model
    for query, rubric in queries:
        asked = len(query) // _CHARACTERS_A_TOKEN
        shown = asked + len(rubric) // _CHARACTERS_A_TOKEN + _ANSWER_TOKENS
        for candidate in candidates:
            if candidate.base_url is not None:
                answers += 1
                _add(usages, candidate, asked, _ANSWER_TOKENS)
            for judge in judges:
                if include_self or judge.name != candidate.name:
                    judgments += 1
                    _add(usages, judge, shown * (1 + rounds), _JUDGMENT_TOKENS * (1 + rounds))
    total = answers + judgments * (1 + rounds)
    critiques = f" and up to {judgments * rounds} critiques: up to {total} calls" if rounds else f": {total} calls"
    return f"{answers} answers, {judgments} judgments{critiques}; {_price(usages)}"


def _add(usages: dict[str, Usage], model: ModelSettings, prompt_tokens: int, completion_tokens: int) -> None:
    usages[model.name] = usages.get(model.name, Usage()) + model.prices.usage(prompt_tokens, completion_tokens)


def _price(usages: Mapping[str, Usage]) -> str:
    """The price of all models; unknown if one of them has none."""
    cost = sum(usages.values(), Usage()).cost
    if cost is None:
        unknown = ", ".join(name for name, usage in usages.items() if usage.cost is None)
        return f"the cost is unknown (price_input and price_output of {unknown})"
    return f"about ${cost:.2f} at {_ANSWER_TOKENS} tokens an answer and {_JUDGMENT_TOKENS} a judgment"
