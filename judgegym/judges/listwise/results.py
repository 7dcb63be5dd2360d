"""From the scores of the calls to a judgment for each answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from judgegym.judges.core.calls import failed_judgment
from judgegym.judges.core.group import GroupCase, Look, MemberDetail, OrderAgreement
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.listwise.asking import ScoredOrder
from judgegym.judges.listwise.chunks import Chunks
from judgegym.judges.listwise.prompt import suspects_of
from judgegym.judges.listwise.scale import one_scale
from judgegym.judges.parsing.verdicts import ScoredAnswer

_DIGITS = 12
"""Of numbers that are computed of scores: rounding errors would tell equal answers apart, and give a group a signal."""


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What the judge said of the answers of a chunk, in each of its orders."""

    orders: tuple[ScoredOrder, ...]

    @property
    def scores(self) -> dict[str, float] | None:
        """The mean over the orders for each text; `None` if one of them has no verdict.

        Means that are equal by the judge's numbers are equal: (0.7 + 0.1) / 2 is 0.4, and not less in the last bit.
        """
        given = [order.scores for order in self.orders if order.scores is not None]
        if len(given) < len(self.orders):
            return None
        if len(given) == 1:
            return {text: entry.score for text, entry in given[0].items()}
        return {
            text: round(sum(scores[text].score for scores in given) / len(given), _DIGITS)
            for text in self.orders[0].shown
        }


class _CallReply(NamedTuple):
    """What one call gave an answer, with the ids in its explanation replaced."""

    look: Look
    explanation: str


def judgments(
    case: GroupCase, shared: Mapping[str, str], chunks: Chunks, results: Sequence[ChunkResult]
) -> list[Judgment[MemberDetail]]:
    """A judgment for each answer of the case, without calls.

    An explanation has the number of an answer where the judge wrote an id of the call.

    Args:
        case: the answers, and the anchor, as the judge was shown them.
        shared: what they share.
        chunks: which texts were shown together, and why others were not.
        results: of each chunk.
    """
    usable = [scores for result in results if (scores := result.scores) is not None]
    own = one_scale(usable, chunks.link)
    relative = own if case.anchor is None else _against(case.anchor, usable)
    orders = [order for result in results for order in result.orders]
    names = {text: f"answer {case.number(place)}" for place, text in reversed([*enumerate(case.answers)])}
    if case.anchor is not None:
        names.setdefault(case.anchor, "the anchor")
    by_text: dict[str, Judgment[MemberDetail]] = {}
    for text in {*case.answers}:
        shown = [order for order in orders if text in order.shown]
        given = [_given(text, order, order.scores, names) for order in shown if order.scores is not None]
        if text in own:
            judgment = _judgment(own[text], relative[text], given)
        elif text in chunks.left_out:
            judgment = Judgment(None, Status.JUDGE_FAILED, explanation=chunks.left_out[text])
        else:
            judgment = _failed([order for order in shown if order.scores is None], given)
        by_text[text] = replace(judgment, suspects=suspects_of(shared, text))
    return [by_text[text] for text in case.answers]


def agreement(results: Sequence[ChunkResult]) -> OrderAgreement:
    """Of the pairs that were shown in both orders, the anchor's included, in how many the same answer is better."""
    agreed = pairs = 0
    for result in results:
        if len(result.orders) < 2 or result.scores is None:
            continue
        first, second = ({text: entry.score for text, entry in (order.scores or {}).items()} for order in result.orders)
        for one, other in combinations(first, 2):
            pairs += 1
            agreed += _sign(first[one] - first[other]) == _sign(second[one] - second[other])
    return OrderAgreement(agreed, pairs)


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _against(anchor: str, usable: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """How each text compares with the anchor in its own chunk, from 0 to 1."""
    return {
        text: round(0.5 + (score - scores[anchor]) / 2, _DIGITS) for scores in usable for text, score in scores.items()
    }


def _given(text: str, order: ScoredOrder, scores: Mapping[str, ScoredAnswer], names: Mapping[str, str]) -> _CallReply:
    by_id = {own: names[other] for own, other in zip(order.ids, order.shown, strict=True)}
    ids = re.compile(rf"\b(?:answer )?({'|'.join(order.ids)})\b", re.IGNORECASE)
    explanation = ids.sub(lambda match: by_id[match[1].lower()], scores[text].explanation)
    return _CallReply(Look(order.shown.index(text) + 1, len(order.shown), scores[text].score), explanation)


def _judgment(own: float, score: float, given: Sequence[_CallReply]) -> Judgment[MemberDetail]:
    detail = MemberDetail(tuple(entry.look for entry in given), own)
    if len(given) == 1:
        said = given[0].explanation
    else:
        said = "\n\n".join(f"In place {one.look.place} of {one.look.of}: {one.explanation}" for one in given)
    return Judgment(score, Status.OK, f"{own:.3g}", said, detail=detail)


def _failed(unscored: Sequence[ScoredOrder], given: Sequence[_CallReply]) -> Judgment[MemberDetail]:
    """The judgment of a text whose chunks all lack a verdict in at least one order."""
    reasons = [f"{order.calls[0].name}: {order.calls[-1].error}" for order in unscored]
    calls = [call for order in unscored for call in order.calls]
    detail = MemberDetail(tuple(entry.look for entry in given), None)
    return replace(failed_judgment(calls, explanation="; ".join(reasons), detail=detail), calls=())
