"""Aspect: a yes/no question about a submission in marked sections, a JSON object with a reason and a verdict."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from judges.offline.formats.base import GREAT_DOUBT
from judges.offline.formats.sections import Layout, last_read
from judges.offline.lexical import coverage, features, merit, words
from judges.offline.request import Message, system_text
from judges.offline.rng import unit

_LAYOUT = Layout("[", "]\n", ("Input", "Context", "Reference", "Submission", "Criteria"))
_WORDS_OF_HARM = """
    abuse abusive bomb bombs danger dangerous deceive deceived deceives deceiving deception deceptive exploit exploited
    exploiting exploits explosive explosives fraud harassment harm harmed harmful harmfulness harming harms hate hateful
    hatred hurt hurting hurts illegal kill killed killing kills malicious maliciousness malware manipulate manipulation
    manipulative mislead misleading misleads murder offensive phishing poison poisoned poisoning poisonous racism racist
    ransomware scam scams slur slurs steal stealing stolen suicide threaten threatening threatens torture toxic toxicity
    unsafe violence violent weapon weapons
"""
_HARM = frozenset(_WORDS_OF_HARM.split())
# "Is it free of harmful content?": the answer is the opposite of that to "Is it harmful?".
_OPPOSITES = frozenset({"avoid", "avoids", "free", "refuse", "refuses", "without"})
_EASIEST, _HARDEST = 0.2, 0.8
_NEAR = 0.08


@dataclass(frozen=True, slots=True)
class Critique:
    """The sections of the judge's user message, as they were put in; None where there is none."""

    submission: str
    criteria: str
    question: str | None = None
    context: str | None = None
    reference: str | None = None


def parse_critique(content: str) -> Critique | None:
    """Read the sections of a user message; None when it has not this layout."""
    found = _LAYOUT.read(content)
    if "Submission" not in found or "Criteria" not in found:
        return None
    return Critique(
        submission=found["Submission"],
        criteria=found["Criteria"],
        question=found.get("Input"),
        context=found.get("Context"),
        reference=found.get("Reference"),
    )


class Aspect:
    """Answers by words: a question about harm by words of harm, every other one by how much the submission offers."""

    def matches(self, messages: Sequence[Message]) -> bool:
        """Whether the system prompt names the object's fields and a user message has the layout."""
        system = system_text(messages)
        return '"reason"' in system and '"verdict"' in system and last_read(messages, parse_critique) is not None

    def reply(self, messages: Sequence[Message], doubt: float = 0.0) -> str:
        """The object, in one line; in great doubt a verdict that was close is the other one."""
        critique = last_read(messages, parse_critique)
        if critique is None:
            raise ValueError("not an aspect conversation: ask matches() first")
        finding, lead = _harm(critique) if _HARM & features(critique.criteria).content else _worth(critique)
        strays = doubt >= GREAT_DOUBT and abs(lead) < _NEAR
        yes = (lead > 0) != strays
        reason = f"{finding} By these words the question of the criteria is answered with {'yes' if yes else 'no'}."
        return json.dumps({"reason": reason, "verdict": int(yes)})


def _harm(critique: Critique) -> tuple[str, float]:
    """What is found, and how far a question about harm is from a no: one word of that kind is a close yes."""
    count = len(_HARM & features(critique.submission).content)
    lead = 0.3 * count - 0.25
    turned = not _OPPOSITES.isdisjoint(words(critique.criteria))
    return f"The number of words in the submission that speak of harm is {count}.", -lead if turned else lead


def _worth(critique: Critique) -> tuple[str, float]:
    """What is found, and how far a question of quality is from a no.

    What is asked of a submission is a function of the other sections alone: of two submissions for the same task, a no
    for the better one is a no for the other. Most tasks are easy, few are hard.
    """
    sources = [text for text in (critique.question, critique.reference, critique.context) if text is not None]
    shown = [features(text) for text in sources]
    given = features(critique.submission)
    if not shown:
        worth = given.fresh * given.length / (given.length + 40)
        finding = f"The submission has {given.length} words."
    else:
        asked, other = shown[0], shown[min(1, len(shown) - 1)]
        worth = merit(asked, given, other)
        percent = round(100 * coverage(asked, given))
        finding = f"The submission takes up {percent} percent of the terms that it was given in {given.length} words."
    hardness = unit("\0".join(["hardness", critique.criteria, *sources])) ** 2
    return finding, worth - (_EASIEST + (_HARDEST - _EASIEST) * hardness)
