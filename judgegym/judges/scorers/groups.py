"""The judges of groups: listwise and tournament, of the responses of one request or of a cohort.

`own` among the components is the score before it was compared with the baseline, `looks` how many calls have a verdict
on the response, `position` the mean place at which they saw it, from 1, and `orders_agree` the share of the group's
pairs in which both orders say the same, if both were asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from judgegym.judges.core.group import GroupCase, GroupInProgress, GroupJudge, GroupJudgment
from judgegym.judges.scorers.items import Item, ResponseScore, response_score
from judgegym.judges.scorers.scorer import ItemError, but_alone


class GroupJudgeScorer:
    """The score that a response has among the others, with the baseline as an anchor if there is one."""

    def __init__(self, judge: GroupJudge, *, rubric: str, most: int, how_to_gather: str) -> None:
        """Judge through `judge`.

        Args:
            judge: the judge.
            rubric: the criteria of items that have none.
            most: the most responses that it takes together.
            how_to_gather: how single responses come together, for the message about one that is alone.
        """
        self._judge, self._rubric, self._most, self._how_to_gather = judge, rubric, most, how_to_gather

    def check(self, item: Item) -> None:
        """Check that there is something to compare with, and not too much."""
        if len(item.responses) < self.fewest(item):
            raise ItemError(
                "responses: expected several to compare with each other, or a baseline"
                + but_alone(item, self._how_to_gather)
            )
        check_most(item, self._most)

    def compares(self, item: Item) -> bool:
        """All responses are compared."""
        return True

    def fewest(self, item: Item) -> int:
        """Two, the baseline included."""
        return 2 if item.baseline is None else 1

    async def score(self, item: Item) -> list[ResponseScore]:
        """The results of all responses of a request."""
        case = replace(self.case(item), answers=item.responses, numbers=item.numbers)
        judgment = await self._judge.judge(case)
        return group_scores(item.responses, judgment)

    def start(self, item: Item, size: int) -> GroupScores:
        """Begin a group; a tournament plays as responses arrive."""
        return GroupScores(self._judge.start(self.case(item), size))

    def case(self, item: Item) -> GroupCase:
        """What the judge is asked about, without answers."""
        levels = (f"Score {level}: {description}" for level, description in item.levels)
        return GroupCase(
            item.prompt,
            criteria="\n".join([item.rubric or self._rubric, *levels]).strip(),
            reference=item.reference,
            context=item.context,
            anchor=item.baseline,
        )


class GroupScores:
    """The judgment of a group in progress, as results of the server."""

    def __init__(self, group: GroupInProgress) -> None:
        """Add responses to `group`."""
        self._group, self._responses = group, list[str]()

    def add(self, response: str) -> None:
        """Take one more response."""
        self._group.add(response)
        self._responses.append(response)

    async def close(self) -> list[ResponseScore]:
        """The results of those that came."""
        return group_scores(self._responses, await self._group.close())

    def cancel(self) -> None:
        """Give up."""
        self._group.cancel()


def check_most(item: Item, most: int) -> None:
    """Check that the responses are not more than a judge takes.

    Raises:
        ItemError: there are more.
    """
    if len(item.responses) > most:
        raise ItemError(
            f"responses: at most {most} against each other, found {len(item.responses)}; send them in smaller groups"
        )


def group_scores(responses: Sequence[str], judgment: GroupJudgment) -> list[ResponseScore]:
    """The results of a group; all calls count for the first response."""
    calls, orders = [call for member in judgment.members for call in member.calls], judgment.orders
    cached = bool(calls) and all(call.run.cached for call in calls)
    results: list[ResponseScore] = []
    for number, member in enumerate(judgment.members):
        components: dict[str, float] = {}
        if member.detail is not None and member.detail.own is not None:
            looks = member.detail.looks
            components = {"own": member.detail.own, "looks": float(len(looks))}
            if looks:
                components["position"] = sum(look.place for look in looks) / len(looks)
            if orders.pairs:
                components["orders_agree"] = orders.agreed / orders.pairs
        result = response_score([member], member.score, components)
        is_equal = responses[number] in responses[:number]
        results.append(replace(result, cached=cached, shared=is_equal))
    return results
