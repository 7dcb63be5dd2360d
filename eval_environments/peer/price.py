"""Estimate the calls and the cost of a peer evaluation before it starts."""

from __future__ import annotations

from collections.abc import Sequence

from eval_environments.peer.endpoints import ModelSettings

_ANSWER_TOKENS, _JUDGMENT_TOKENS = 500, 150
"""The assumed lengths of an answer and of a judgment."""
_CHARACTERS_A_TOKEN = 4


def calls_and_price(
    candidates: Sequence[ModelSettings],
    judges: Sequence[ModelSettings],
    queries: Sequence[tuple[str, str]],
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
    cost = 0.0
    for query, rubric in queries:
        asked = len(query) / _CHARACTERS_A_TOKEN
        shown = asked + len(rubric) / _CHARACTERS_A_TOKEN + _ANSWER_TOKENS
        for candidate in candidates:
            if candidate.base_url is not None:
                answers += 1
                cost += asked * candidate.price_input + _ANSWER_TOKENS * candidate.price_output
            for judge in judges:
                if include_self or judge.name != candidate.name:
                    judgments += 1
                    once = shown * judge.price_input + _JUDGMENT_TOKENS * judge.price_output
                    cost += once * (1 + rounds)
    total = answers + judgments * (1 + rounds)
    price = f"about ${cost / 1e6:.2f}" if cost else "no price is known (price_input, price_output of the models)"
    critiques = f" and up to {judgments * rounds} critiques: up to {total} calls" if rounds else f": {total} calls"
    lengths = f" at {_ANSWER_TOKENS} tokens an answer and {_JUDGMENT_TOKENS} a judgment" if cost else ""
    return f"{answers} answers, {judgments} judgments{critiques}; {price}{lengths}"
