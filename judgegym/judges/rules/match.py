"""Rules that compare a response with an expected text.

They are number, exact, normalised, contains and multiple choice.

Guarantees: linear time; never raises on any text. The rules read the answer, which is the text
after its thinking. If the expected text or the response lacks what is compared (a number, a
letter), the rule cannot say.

Sources: normalisation as in the evaluation script of SQuAD 1.1 (Rajpurkar et al., 2016), after
Unicode's NFKC.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Context, Decimal

from judgegym.judges.rules.finding import RuleFinding, cannot_say

_NUMBER = re.compile(
    r"[-+−]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?"
    r"|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3}(?![0-9]))?"
)
_FRACTION = re.compile(
    r"((?<![\w)}])[-+−]\s{0,4})?"
    r"\\[dt]?frac\s{0,4}\{\s{0,4}([^{}]{1,40}?)\s{0,4}\}\s{0,4}\{\s{0,4}([^{}]{1,40}?)\s{0,4}\}"
)
_THOUSANDS = re.compile(
    r"(?<=[0-9])(?:\{,\}|,?\\!|\\[,;]|[\u00a0\u2009\u202f])(?=[0-9]{3}(?![0-9]))"
)
"""What stands between groups of three digits in LaTeX, or as a space that does not break a line."""
_CURRENCY_BEHIND_SIGN = re.compile(r"(?<=[-−])\\?[$€£¥]\s?(?=[0-9.])")
_CONTEXT = Context(prec=1000, traps=[])
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_BOXED = "\\boxed{"


def find_boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}` with balanced braces; `None` without one."""
    start = text.rfind(_BOXED)
    if start < 0:
        return None
    start += len(_BOXED)
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return text[start : start + brace.start()]
    return None


def find_last_number(text: str) -> tuple[Decimal, str] | None:
    r"""Return the last number of a text, with its words; `None` without one.

    Commas between groups of three digits (in LaTeX also `{,}` and small spaces), an exponent, a
    fraction (`3/4`, `\frac{3}{4}`) and a minus sign of Unicode are read; signs of currency, units
    and per cent are not.

    >>> find_last_number("It costs $1,250.50, not 3.")[0], find_last_number("so x = -3/4")[0]
    (Decimal('3'), Decimal('-0.75'))
    """
    plain = _CURRENCY_BEHIND_SIGN.sub(
        "", _THOUSANDS.sub(",", _FRACTION.sub(_flatten_fraction, text))
    )
    matches = [*_NUMBER.finditer(plain)][-2:]
    if not matches:
        return None
    last, before = matches[-1], matches[0]
    value = _parse_decimal(last[0])
    if len(matches) > 1 and plain[before.end() : last.start()] == "/":
        quotient = _CONTEXT.divide(_parse_decimal(before[0]), value)
        if not quotient.is_finite():
            return None
        return quotient, plain[before.start() : last.end()]
    # A sign right behind a word or a number is a dash or a subtraction.
    is_dash = last[0][0] in "-−" and plain[last.start() - 1 : last.start()].isalnum()
    if is_dash:
        return value.copy_negate(), last[0][1:]
    return value, last[0]


def _flatten_fraction(fraction: re.Match[str]) -> str:
    """Flatten a fraction of LaTeX to `3/4`, with the sign before it."""
    sign, over, under = (fraction[1] or "").strip(), fraction[2], fraction[3]
    if sign and over[0] in "-+−":
        sign, over = "+" if (sign == "+") is (over[0] == "+") else "-", over[1:]
    return f" {sign}{over}/{under} "


def _parse_decimal(written: str) -> Decimal:
    return Decimal(written.replace(",", "").replace("−", "-"))


def number(text: str, expected: str, tolerance: float = 0.0) -> RuleFinding:
    r"""Compare the last number with the reference's, within `rule_tolerance`.

    A number in the last `\boxed{…}` counts first. It reads `1,250`, `.5`, `6e23`, `3/4`,
    `\frac{3}{4}` and `-$5`, but no units and no per cent. Cannot say: one of them has no number.

    Args:
        text: the answer.
        expected: the expected text, such as `18` or a solution that ends with `#### 18`.
        tolerance: the largest difference as a share of the expected number, or of 1 if that is 0; 0
            for exact equality.
    """
    wanted = find_last_number(find_boxed(expected) or expected)
    if wanted is None:
        return cannot_say("the expected value has no number", expected=expected, is_unusable=True)
    answer = find_last_number(find_boxed(text) or text)
    if answer is None:
        return cannot_say("the text has no number", expected=wanted[1])
    difference = _CONTEXT.abs(_CONTEXT.subtract(answer[0], wanted[0]))
    most = _CONTEXT.multiply(Decimal(tolerance), wanted[0].copy_abs() or Decimal(1))
    holds = answer[0] == wanted[0] or (tolerance > 0 and difference <= most)
    return RuleFinding.from_outcome(holds=holds, actual=answer[1], expected=wanted[1])


def exact(text: str, expected: str) -> RuleFinding:
    """Check that the answer is the reference, except for white space at both ends."""
    if not expected.strip():
        return cannot_say("the expected value is blank", expected=expected, is_unusable=True)
    return RuleFinding.from_outcome(
        holds=text.strip() == expected.strip(), actual=text.strip(), expected=expected.strip()
    )


def normalise_text(text: str) -> str:
    """Return a text without case, punctuation, English articles and repeated white space.

    >>> normalise_text("The  Eiffel-Tower!")
    'eiffel tower'
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_ARTICLES.sub(" ", _PUNCTUATION.sub(" ", plain)).split())


def normalised(text: str, expected: str) -> RuleFinding:
    """Check that the normalised answer is the normalised reference.

    Case, punctuation, English articles and repeated white space do not count, as in SQuAD. Cannot
    say: nothing is left of the reference.
    """
    wanted, answer = normalise_text(expected), normalise_text(text)
    if not wanted:
        return cannot_say(
            "nothing is left of the expected value, normalised", expected=expected, is_unusable=True
        )
    return RuleFinding.from_outcome(holds=answer == wanted, actual=answer, expected=wanted)


def contains(text: str, expected: str) -> RuleFinding:
    """Check that the normalised reference occurs in the normalised answer.

    It does not count within a word of Latin letters. Cannot say: nothing is left of the reference.
    """
    wanted, answer = normalise_text(expected), normalise_text(text)
    if not wanted:
        return cannot_say(
            "nothing is left of the expected value, normalised", expected=expected, is_unusable=True
        )
    before = "(?<![a-z0-9])" if wanted[0].isascii() else ""
    after = "(?![a-z0-9])" if wanted[-1].isascii() else ""
    at = None
    if wanted in answer:
        at = re.search(before + re.escape(wanted) + after, answer)
    return RuleFinding.from_outcome(
        holds=at is not None, actual=None if at is None else at[0], expected=wanted
    )


_SAID = re.compile(
    r"""(?:answer|(?P<named>choice|option))\b[^\w(]{0,5}(?:(?:is|:)[^\w(]{0,6})?
    [(\[{]?(?P<letter>[A-Z])(?![\w'’])
    # "A good question" and "I think" begin with a word, "A because …" with a letter.
    (?!(?<=[AI])\s+(?!(?:because|since|as|is|and|or|but|due|which|while|given|based|not|so)\b)[a-z])
    # "B or C" chooses none.
    (?![)\]}*]*\s*(?:,|/|&|\band\b|\bor\b)\s*[(\[{*]*(?-i:[A-H])(?![\w'’])
        (?!\s+(?:is|are|was|does|would)\b))
    # "Option C is wrong" speaks of an option.
    (?!(?(named)[)\]}*]*\s+
        (?:is|are|was|does|would|can|cannot|has|refers|describes|states|suggests)\b
        (?!\s+(?:the\s+|most\s+|likely\s+){0,3}
            (?:correct|right|best|true|answer|accurate|appropriate)\b)|(?!)))""",
    re.IGNORECASE | re.VERBOSE,
)
_ALONE = re.compile(r"[\s*_(\[{$]*([A-Z])(?:(?P<bare>[\s*_)\]}.:$]*)|[).:][ *_].*)", re.DOTALL)


def find_choice(text: str) -> str | None:
    """Return the capital letter that a text chooses; `None` without one.

    It is boxed, after "answer", or alone on the last line.

    A sentence about an option does not choose it, and a bare letter on the last line counts after
    everything else.

    >>> find_choice("So the answer is (B). Option C is wrong."), find_choice("C) 42")
    ('B', 'C')
    >>> find_choice("A good question.")
    """
    inside, letters = find_boxed(text), list[str]()
    if inside is not None:
        text = re.sub(r"\\text\w{0,4}\{([^{}]*)\}", r"\1", inside)
    else:
        letters = [match["letter"] for match in _SAID.finditer(text) if match["letter"].isupper()]
    lines = [line for line in text.splitlines() if line.strip()]
    alone = _ALONE.fullmatch(lines[-1]) if lines else None
    if letters and (alone is None or alone["bare"] is None):
        return letters[-1]
    if alone is None:
        return None
    return alone[1]


def multiple_choice(text: str, expected: str) -> RuleFinding:
    r"""Check the chosen letter.

    It is in `\boxed{B}`, behind "answer", "choice" or "option", or alone on the last line. A line
    such as `B) Paris` chooses B. Cannot say: there is no letter, or several.
    """
    wanted, answer = find_choice(expected), find_choice(text)
    if wanted is None:
        return cannot_say(
            "the expected value is no letter of a choice", expected=expected, is_unusable=True
        )
    if answer is None:
        return cannot_say("the text chooses no letter", expected=wanted)
    return RuleFinding.from_outcome(holds=answer == wanted, actual=answer, expected=wanted)
