"""Rules that measure a response by itself: its length, language and thinking format.

A length scores 1.0 up to the soft limit, 0.0 beyond the hard limit, and linearly less between them.
A language is detected by py3langid, whose probability must be at least one half; it runs in a
worker, since its model takes a second to load.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from judgegym.judges.parsing.thinking import split
from judgegym.judges.rules.finding import Comparison, RuleFinding, cannot_say
from judgegym.llm.usage import count_tokens

LengthUnit = Literal["words", "characters", "tokens"]
_CHARACTERS_READ = 4000
"""Characters of a text whose language is told."""
_LEAST_PROBABILITY = 0.5


def length(text: str, unit: LengthUnit, soft: int | None, hard: int) -> RuleFinding:
    """Give 1 up to `rule_soft_limit`, then linearly less, down to 0 at `rule_hard_limit`.

    Args:
        text: the response.
        unit: the unit that is counted. Words are separated by white space; tokens are counted by
            `count_tokens`.
        soft: up to this length the score is 1.0; `None` for the hard limit.
        hard: from this length on the score is 0.0; if it is also the soft limit, only beyond it.

    >>> [length("a " * count, "words", 2, 4).score for count in (2, 3, 4, 5)]
    [1.0, 0.5, 0.0, 0.0]
    """
    if soft is None:
        soft = hard
    if unit == "tokens":
        counted = count_tokens(text)
    else:
        counted = len(text.split()) if unit == "words" else len(text)
    score = 0.0
    if counted <= soft:
        score = 1.0
    elif hard > soft:
        score = max(0.0, (hard - counted) / (hard - soft))
    limits = f"at most {soft}"
    if hard != soft:
        limits += f", and never {hard}"
    return RuleFinding(score, f"{counted} {unit}", limits)


def repetition(text: str) -> RuleFinding:
    """Compute the share of distinct runs among all runs of three words; 1 for fewer words.

    >>> repetition("again and again and again and").score
    0.5
    """
    words = text.lower().split()
    runs = [*zip(words, words[1:], words[2:], strict=False)]
    count, distinct = len(runs), len({*runs})
    share = distinct / count if runs else 1.0
    return RuleFinding(share, f"{distinct} of {count}", "no run twice")


def thinking_format(text: str, *, opened_by_template: bool) -> RuleFinding:
    """Check for an answer after one `<think>…</think>` (`rule_opened_by_template`: `</think>`).

    `judgegym.judges.parsing.thinking` has
    the format.
    """
    thinking = split(text, opened_by_template=opened_by_template)
    return RuleFinding.from_outcome(
        holds=thinking.valid, actual=thinking.reason or "valid", expected="valid"
    )


@lru_cache
def language() -> Comparison:
    """Check that the answer is in the language of the code (`de`), or of the prompt, by py3langid.

    Cannot say: the detector's probability is below ½.

    `=text` expects the language of this text, such as the prompt's.
    """
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)

    def detect(text: str) -> str | None:
        code, probability = identifier.classify(
            text[:_CHARACTERS_READ].encode("utf-8", "replace").decode()
        )
        if probability < _LEAST_PROBABILITY:
            return None
        return str(code)

    def compare(text: str, expected: str) -> RuleFinding:
        wanted = detect(expected[1:]) if expected.startswith("=") else expected.strip().lower()
        if wanted is None:
            return cannot_say("the language of the prompt cannot be detected")
        if wanted not in identifier.labels:
            codes = ", ".join(sorted(code for code in identifier.labels if len(code) == 2))
            return cannot_say(
                f"unknown language code; expected one of {codes}", expected=wanted, is_unusable=True
            )
        detected = detect(text)
        if detected is None:
            return cannot_say("the language of the text cannot be detected", expected=wanted)
        return RuleFinding.from_outcome(holds=detected == wanted, actual=detected, expected=wanted)

    return compare
