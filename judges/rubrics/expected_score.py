"""The expected score: what a judge's probabilities say of a score, in place of the one number that was sampled.

Source: Liu et al., G-Eval: NLG Evaluation using GPT-4 with Better Human Alignment (2023), section 2: Σ p(s)·s over the
scores s of the scale.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from judges.core.calls import NoVerdict
from judges.core.scale import Scale
from judges.llm.errors import SettingsError
from judges.llm.wire import JSON, Choice, Token

REQUEST: Mapping[str, JSON] = {"logprobs": True, "top_logprobs": 20}
"""What a request must ask for."""
LEAST_MASS = 0.5
"""With less probability on the scale's tokens than this, they say nothing of the score."""


def expected_score(choice: Choice, scale: Scale, *, tag: str) -> float | NoVerdict:
    """The expectation over the tokens that could have stood where the score stands.

    Tokens are compared without white space, the same scores in different tokens add up, and what is on the scale is
    renormalised.

    Args:
        choice: a judge's answer that has a score.
        scale: its scores; single digits, since a token of a longer number may be the beginning of another.
        tag: what the score stands behind; the last one counts.

    Returns:
        A number on the scale, or why there is none.

    Raises:
        SettingsError: the endpoint returned no probabilities.
    """
    if choice.tokens is None:
        raise SettingsError(
            "weighting=logprobs: the judge's endpoint returns no top_logprobs; take another endpoint, or weighting=none"
        )
    token = _behind(tag, choice.tokens)
    if token is None:
        return NoVerdict("no token of its own holds the score")
    mass: dict[int, float] = {}
    for text, logprob in token.top:
        digits = text.strip()
        if len(digits) == 1 and digits in "0123456789" and int(digits) in scale.levels:
            mass[int(digits)] = mass.get(int(digits), 0.0) + math.exp(min(logprob, 0.0))
    total = math.fsum(mass.values())
    if not total >= LEAST_MASS:  # so that NaN is too little as well
        return NoVerdict(f"the scale's tokens have {total:.2f} of the probability; expected {LEAST_MASS} or more")
    if len(mass) == 1:
        return float(next(iter(mass)))  # without the division's rounding
    return math.fsum(score * probability for score, probability in mass.items()) / total


def check_scale(scale: Scale) -> None:
    """Whether scores of a scale are single tokens.

    Raises:
        SettingsError: they may not be.
    """
    if scale.low < 0 or scale.high > 9:
        raise SettingsError(
            f"weighting=logprobs needs scores of one digit, and the scale goes from {scale.low} to {scale.high}"
        )


def _behind(tag: str, tokens: tuple[Token, ...]) -> Token | None:
    """The first token with a digit behind the last tag, if it begins behind the tag."""
    text = "".join(token.text for token in tokens)
    tags = list(re.finditer(re.escape(tag), text, re.IGNORECASE))
    if not tags:
        return None
    end, start = tags[-1].end(), 0
    for token in tokens:
        if start + len(token.text) > end and any(character.isdigit() for character in token.text):
            return token if start >= end else None
        start += len(token.text)
    return None
