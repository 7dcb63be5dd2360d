"""The judge that chooses the best of several responses, in one call.

Arena-Hard's judge: the win rate in both orders against a baseline, or a tournament of the responses.

The judges of groups: listwise and tournament, of the responses of one request or of a cohort.

`own` among the components is the score before it was compared with the baseline, `looks` how many calls have a verdict
on the response, `position` the mean place at which they saw it, from 1, and `orders_agree` the share of the group's
pairs in which both orders say the same, if both were asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from judgegym.judges.arena import ArenaCase, arena_judge
from judgegym.judges.core.group import GroupCase, GroupInProgress, GroupJudge, GroupJudgment
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.scorer import TaskError, but_alone, unit_score
from judgegym.judges.core.seeding import generator
from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment, response_judgment
from judgegym.judges.pairwise import (
    FEWEST_CHOICES,
    LETTERS,
    MOST_CHOICES,
    ChoiceCase,
    ChoiceDetail,
    ChoiceJudgeSettings,
    choice_judge,
)
from judgegym.judges.tournament.progress import tournament_judge
from judgegym.judges.tournament.schedule import TournamentSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError


class GroupJudgeScorer:
    """The score that a response has among the others, with the baseline as an anchor if there is one."""

    def __init__(self, judge: GroupJudge, *, rubric: str, most: int, how_to_gather: str) -> None:
        """Judge through `judge`.

        Args:
            judge: the judge.
            rubric: the criteria of tasks that have none.
            most: the most responses that it takes together.
            how_to_gather: how single responses come together, for the message about one that is alone.
        """
        self._judge, self._rubric, self._most, self._how_to_gather = judge, rubric, most, how_to_gather

    def check(self, task: JudgeTask) -> None:
        """Check that there is something to compare with, and not too much."""
        if len(task.responses) < self.fewest(task):
            raise TaskError(
                "responses: expected several to compare with each other, or a baseline"
                + but_alone(task, self._how_to_gather)
            )
        check_most(task, self._most)

    def compares(self, task: JudgeTask) -> bool:
        """All responses are compared."""
        return True

    def fewest(self, task: JudgeTask) -> int:
        """Two, the baseline included."""
        return 2 if task.baseline is None else 1

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        """The results of all responses of a request."""
        case = replace(self.case(task), answers=task.responses, numbers=task.numbers)
        judgment = await self._judge.judge(case)
        return group_scores(task.responses, judgment)

    def start(self, task: JudgeTask, size: int) -> GroupScores:
        """Begin a group; a tournament plays as responses arrive."""
        return GroupScores(self._judge.start(self.case(task), size))

    def case(self, task: JudgeTask) -> GroupCase:
        """What the judge is asked about, without answers."""
        levels = (f"Score {level}: {description}" for level, description in task.levels)
        return GroupCase(
            task.prompt,
            criteria="\n".join([task.rubric or self._rubric, *levels]).strip(),
            reference=task.reference,
            context=task.context,
            anchor=task.baseline,
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

    async def close(self) -> list[ResponseJudgment]:
        """The results of those that came."""
        return group_scores(self._responses, await self._group.close())

    def cancel(self) -> None:
        """Give up."""
        self._group.cancel()


def check_most(task: JudgeTask, most: int) -> None:
    """Check that the responses are not more than a judge takes.

    Raises:
        TaskError: there are more.
    """
    if len(task.responses) > most:
        raise TaskError(
            f"responses: at most {most} against each other, found {len(task.responses)}; send them in smaller groups"
        )


def group_scores(responses: Sequence[str], judgment: GroupJudgment) -> list[ResponseJudgment]:
    """The results of a group; all calls count for the first response."""
    calls, orders = [call for member in judgment.members for call in member.calls], judgment.orders
    cached = bool(calls) and all(call.run.cached for call in calls)
    results: list[ResponseJudgment] = []
    for number, member in enumerate(judgment.members):
        components: dict[str, float] = {}
        if member.detail is not None and member.detail.own is not None:
            looks = member.detail.looks
            components = {"own": member.detail.own, "looks": float(len(looks))}
            if looks:
                components["position"] = sum(look.place for look in looks) / len(looks)
            if orders.pairs:
                components["orders_agree"] = orders.agreed / orders.pairs
        result = response_judgment([member], member.score, components)
        is_equal = responses[number] in responses[:number]
        results.append(replace(result, cached=cached, shared=is_equal))
    return results


_ALL_EQUAL: Judgment[ChoiceDetail] = Judgment(1.0, Status.OK, "best", "All responses are equal: there is no choice.")


class ChoiceScorer:
    """1 for the response that the judge chooses as the best, and for its equals, 0 for the others: one call for all."""

    def __init__(self, client: ChatClient, settings: ChoiceJudgeSettings, *, how_to_gather: str = "") -> None:
        """Judge as the settings say; `how_to_gather` ends the message about a response that is alone."""
        self._judge, self._seed, self._how_to_gather = choice_judge(settings, client), settings.seed, how_to_gather

    def check(self, task: JudgeTask) -> None:
        """Check that there are 2 to 26 responses."""
        if not FEWEST_CHOICES <= len(task.responses) <= MOST_CHOICES:
            raise TaskError(
                f"responses: expected {FEWEST_CHOICES} to {MOST_CHOICES}, found {len(task.responses)}"
                + but_alone(task, self._how_to_gather)
            )

    def compares(self, task: JudgeTask) -> bool:
        """All responses are compared."""
        return True

    def fewest(self, task: JudgeTask) -> int:
        """Two."""
        return FEWEST_CHOICES

    def start(self, task: JudgeTask, size: int) -> _ResponseCollector:
        """Collect responses, since one call chooses among all."""
        return _ResponseCollector(self, task)

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        """Judge the distinct responses, in an order that depends on the seed and the task only.

        The judge's letters are those of its order: the explanation begins with what they stand for, and each result has
        the `position` (from 1) at which the judge saw its response.
        """
        numbers = {text: number for number, text in enumerate(dict.fromkeys(task.responses))}
        everyone = [numbers[text] for text in task.responses]
        if len(numbers) == 1:
            best = response_judgment([_ALL_EQUAL], _ALL_EQUAL.score, {"position": 1.0})
            return [best, *(replace(best, shared=True) for _ in everyone[1:])]
        texts, order = tuple(numbers), list(range(len(numbers)))
        generator(self._seed, replace(task, responses=texts).key("choice"), "order").shuffle(order)
        judgment = await self._judge.judge(ChoiceCase(task.prompt, tuple(texts[number] for number in order)))
        return [_of_choice(judgment, task, everyone, order, place) for place in range(len(everyone))]


class _ResponseCollector:
    """Responses that are judged when all are there."""

    def __init__(self, scorer: ChoiceScorer, task: JudgeTask) -> None:
        self._scorer, self._task, self._responses = scorer, task, list[str]()

    def add(self, response: str) -> None:
        """Take one more response."""
        self._responses.append(response)

    async def close(self) -> list[ResponseJudgment]:
        """The results of those that came."""
        return await self._scorer.score(replace(self._task, responses=tuple(self._responses)))

    def cancel(self) -> None:
        """Nothing is in progress."""


def _of_choice(
    judgment: Judgment[ChoiceDetail], task: JudgeTask, everyone: Sequence[int], order: Sequence[int], place: int
) -> ResponseJudgment:
    """The result of the response at a place; the judge's call counts for the first one."""
    paid, own = ([judgment] if place == 0 else []), everyone[place]
    is_equal = own in everyone[:place]
    if judgment.score is None or judgment.detail is None or judgment.detail.best is None:
        return replace(response_judgment([judgment], None, {}, paid=paid), shared=is_equal)
    is_best = own == order[judgment.detail.best]
    of_response = replace(
        judgment,
        score=float(is_best),
        label="best" if is_best else "not the best",
        explanation=f"{_letters(task, everyone, order)}\n\n{judgment.explanation}",
    )
    position = {"position": float(order.index(own) + 1)}
    return replace(response_judgment([of_response], of_response.score, position, paid=paid), shared=is_equal)


def _letters(task: JudgeTask, everyone: Sequence[int], order: Sequence[int]) -> str:
    """What the judge's letters stand for, in the order of the caller."""
    places = range(len(everyone)) if task.places is None else task.places
    shown: list[str] = []
    for letter, number in zip(LETTERS, order, strict=False):
        equals = (f"responses[{place}]" for place, own in zip(places, everyone, strict=True) if own == number)
        shown.append(f"{letter} is {' and '.join(equals)}")
    return f"In the judge's order {', '.join(shown)}."


class ArenaScorer:
    """The win rate over both orders against a baseline; without one, a tournament of the responses.

    A response is alone with a baseline, as in the benchmark; `tournament` is the judge that has it as one more player.
    """

    def __init__(
        self, client: ChatClient, settings: TournamentSettings, *, most: int, gathers: bool, how_to_gather: str
    ) -> None:
        """Judge as the settings say.

        Args:
            client: the client of the judge model.
            settings: those of the judge, and of the tournament where there is no baseline.
            most: the most responses of a tournament.
            gathers: single responses are gathered.
            how_to_gather: how they are, for the message about one that is alone.

        Raises:
            SettingsError: single responses are gathered, and its settings allow no tournament.
        """
        self._judge, self._most, self._how_to_gather = arena_judge(settings, client), most, how_to_gather
        self._tournament: GroupJudge | str
        try:
            self._tournament = tournament_judge(settings, client)
        except SettingsError as error:
            if gathers:
                raise
            self._tournament = str(error)

    def check(self, task: JudgeTask) -> None:
        """Check that there is a baseline, or other responses to compare with, and not too many of them."""
        if _baseline(task) is not None:
            return
        if len(task.responses) < self.fewest(task):
            raise TaskError(
                "baseline: expected a baseline, or several responses to compare with each other"
                + but_alone(task, self._how_to_gather)
            )
        check_most(task, self._most)
        self._games()

    def compares(self, task: JudgeTask) -> bool:
        """Without a baseline, responses are compared with each other."""
        return _baseline(task) is None

    def fewest(self, task: JudgeTask) -> int:
        """Two."""
        return 2

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        """Against the baseline, or against each other."""
        baseline = _baseline(task)
        if baseline is not None:
            judgment = await self._judge.judge(ArenaCase(task.prompt, task.response, baseline))
            return [unit_score(judgment, _win_rate)]
        case = GroupCase(task.prompt, task.responses, numbers=task.numbers)
        return group_scores(task.responses, await self._games().judge(case))

    def start(self, task: JudgeTask, size: int) -> GroupScores:
        """Begin a tournament, which plays as responses arrive."""
        return GroupScores(self._games().start(GroupCase(task.prompt), size))

    def _games(self) -> GroupJudge:
        """The judge of a tournament.

        Raises:
            TaskError: the settings allow none.
        """
        if isinstance(self._tournament, str):
            raise TaskError(f"responses: without a baseline they play a tournament: {self._tournament}")
        return self._tournament


def _baseline(task: JudgeTask) -> str | None:
    """The baseline of a task, or its reference, for protocols without a field for a baseline."""
    return task.reference if task.baseline is None else task.baseline


def _win_rate(score: float) -> float:
    """A row's reward from −1 to 1 as a win rate from 0 to 1."""
    return (score + 1.0) / 2.0
