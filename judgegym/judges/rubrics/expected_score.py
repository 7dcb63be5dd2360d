"""The expected score: the mean over the judge's token probabilities, in place of the sampled number.

Source: Liu et al., G-Eval: NLG Evaluation using GPT-4 with Better Human Alignment (2023), section 2: Σ p(s)·s over the
scores s of the scale.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from judgegym.judges.core.calls import NoVerdict
from judgegym.judges.core.scale import Scale
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON, Choice, Token

REQUEST: Mapping[str, JSON] = {"logprobs": True, "top_logprobs": 20}
"""The fields that a request must have."""
LEAST_MASS = 0.5
"""The least total probability of the scale's tokens; with less, the expected score is not reliable."""


def expected_score(choice: Choice, scale: Scale, *, tag: str | re.Pattern[str]) -> float | NoVerdict:
    """The expectation over the alternatives to the token that holds the score.

    White space around tokens is ignored, the probabilities of tokens with the same score are added, and the
    probabilities of the scale's scores are renormalised.

    Args:
        choice: a judge's answer that has a score.
        scale: the scores; single digits, because a token may hold only the first digit of a longer number.
        tag: the text before the score, in any case, or what matches it; its last occurrence counts.

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
    if not total >= LEAST_MASS:  # true for NaN, too
        return NoVerdict(f"the scale's tokens have {total:.2f} of the probability; expected {LEAST_MASS} or more")
    if len(mass) == 1:
        return float(next(iter(mass)))  # exact: the division below would round
    return math.fsum(score * probability for score, probability in mass.items()) / total


def check_scale(scale: Scale) -> None:
    """Check that every score of a scale is one token.

    Raises:
        SettingsError: a score has more than one digit or a sign.
    """
    if scale.low < 0 or scale.high > 9:
        raise SettingsError(
            f"weighting=logprobs needs scores of one digit, and the scale goes from {scale.low} to {scale.high}"
        )


def _behind(tag: str | re.Pattern[str], tokens: tuple[Token, ...]) -> Token | None:
    """The first token with a digit after the last tag; `None` if that token begins within the tag."""
    text = "".join(token.text for token in tokens)
    pattern = re.compile(re.escape(tag), re.IGNORECASE) if isinstance(tag, str) else tag
    tags = list(pattern.finditer(text))
    if not tags:
        return None
    end, start = tags[-1].end(), 0
    for token in tokens:
        if start + len(token.text) > end and any(character.isdigit() for character in token.text):
            return token if start >= end else None
        start += len(token.text)
    return None
