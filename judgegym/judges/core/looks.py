"""How the calls of a group's judge saw one answer, in words: for tables and pages."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from judgegym.judges.core.group import Look, OrderAgreement

_MOST_ONE_BY_ONE = 3


def looks_in_words(looks: Sequence[Look]) -> str:
    """Where an answer stood in each call and what it was given; of many calls the sums.

    >>> looks_in_words([Look(2, 8, 0.7), Look(7, 8, 0.6)])
    'place 2 of 8: 0.7; place 7 of 8: 0.6'
    >>> looks_in_words([Look(1, 2, 1.0), Look(2, 2, 0.5)] * 7)
    '14 games, 7 shown first: 10.5 points'
    """
    if not looks:
        return ""
    if len(looks) <= _MOST_ONE_BY_ONE:
        return "; ".join(f"place {look.place} of {look.of}: {look.points:.3g}" for look in looks)
    if all(look.of == 2 for look in looks):  # a game has two sides
        first = sum(look.place == 1 for look in looks)
        return f"{len(looks)} games, {first} shown first: {sum(look.points for look in looks):.4g} points"
    return f"{len(looks)} calls, mean {fmean(look.points for look in looks):.3g}"


def orders_in_words(orders: OrderAgreement) -> str:
    """How far the orders agree; empty if no pair was seen in both.

    >>> orders_in_words(OrderAgreement(agreed=26, pairs=28))
    'the orders agree on 26 of 28 pairs'
    """
    return f"the orders agree on {orders.agreed} of {orders.pairs} pairs" if orders.pairs else ""
