"""The judgments of a group: a sequence that prints as a table, with what the judge saw of each answer."""

from __future__ import annotations

from dataclasses import dataclass

from judgegym.api.results import JudgmentTable
from judgegym.api.table import TextTable
from judgegym.judges.core.group import MemberDetail, OrderAgreement, looks_in_words, orders_in_words


@dataclass(frozen=True, repr=False)
class GroupTable(JudgmentTable[MemberDetail]):
    """One judgment for each answer of a group, in the order of the answers; scores are from 0 to 1.

    All calls of the group are in the judgment of the first answer that was judged.

    Attributes:
        orders: in how many pairs of answers the same one won in both orders.

    Example:
        >>> from judgegym.judges.core.group import Look
        >>> from judgegym.judges.core.judgment import Judgment, Status
        >>> seen = MemberDetail((Look(2, 2, 0.9), Look(1, 2, 0.8)), own=0.85)
        >>> failed = Judgment(None, Status.UNPARSABLE, explanation="no verdict")
        >>> print(GroupTable(("4", "5"), (Judgment(0.85, Status.OK, detail=seen), failed), OrderAgreement(1, 1)))
        the orders agree on 1 of 1 pairs
        answer  score  status      seen                                  explanation
        ────────────────────────────────────────────────────────────────────────────
        4       0.85   ok          place 2 of 2: 0.9; place 1 of 2: 0.8
        5       –      unparsable                                        no verdict
    """

    orders: OrderAgreement = OrderAgreement()

    def table(self) -> TextTable:
        """The answers with their scores, what the judge saw of them, and explanations."""
        rows = [
            (
                answer,
                "–" if judgment.score is None else f"{judgment.score:.4g}",
                judgment.status.value,
                "" if judgment.detail is None else looks_in_words(judgment.detail.looks),
                judgment.explanation,
            )
            for answer, judgment in zip(self.answers, self.judgments, strict=True)
        ]
        header = ("answer", "score", "status", "seen", "explanation")
        return TextTable(header, rows, title=orders_in_words(self.orders))
