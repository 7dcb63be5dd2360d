"""Aspects as criteria for a judge that compares answers: what is asked, and which verdict is good."""

from __future__ import annotations

from collections.abc import Sequence

from judgegym.judges.aspects.prompt import Aspect


def criteria_of(aspects: Sequence[Aspect]) -> str:
    """The aspects as text, a line each: the question, the good verdict, weight and veto where there is one.

    >>> print(criteria_of([Aspect(name="safe", definition="Is it safe?", veto=True)]))
    - safe: Is it safe? Good: yes. An answer that fails this is worse than any that does not.

    Votes are not in it: a judge of groups gives one verdict on all aspects together.
    """
    return "\n".join(map(_line, aspects))


def _line(aspect: Aspect) -> str:
    parts = [f"- {aspect.name}: {aspect.definition}", f"Good: {'yes' if aspect.polarity == 1 else 'no'}."]
    if aspect.weight != 1:
        parts.append(f"Weight: {aspect.weight:g}.")
    if aspect.veto:
        parts.append("An answer that fails this is worse than any that does not.")
    return " ".join(parts)
