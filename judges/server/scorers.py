"""From an item to scores: one small scorer for each kind of judge. All scores are from 0 to 1."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from itertools import combinations
from typing import Protocol

from judges.arena.judge import ArenaDetail, ArenaHardJudge
from judges.aspects.judge import AspectSettings
from judges.aspects.panel import AspectPanel, PanelDetail
from judges.core.calls import ask
from judges.core.judgment import Judgment, Status
from judges.core.scale import Scale
from judges.core.seeding import derive
from judges.core.self_critique import SelfCritique
from judges.llm.client import ChatClient
from judges.llm.errors import SettingsError
from judges.pairwise.prompt import LETTERS, MOST_CHOICES, choice_messages
from judges.parsing.verdicts import choice_letter
from judges.peers.judge import DEFAULT_RUBRIC, SCALE, PeerDetail, PeerJudge
from judges.rubrics.expected_score import check_scale
from judges.rubrics.judge import RubricDetail, RubricJudge, RubricSettings
from judges.rubrics.prompt import Rubric
from judges.server.items import Item, ResponseScore, response_score
from judges.server.settings import JudgeMount

GENERAL_RUBRIC = "Does the response answer what was asked correctly, completely and clearly?"
"""Of a rubric's judge where neither the request nor the settings name one."""

MOST_COMPARED = 64
"""Responses of one request that Arena-Hard's judge compares with each other: 2,016 battles of two games."""


class Unusable(ValueError):
    """An item lacks something that its judge needs; the message says what."""


class Scorer(Protocol):
    """A judge as the server sees it."""

    group_relative: bool
    """Whether the responses of an item are judged by one another."""

    def check(self, item: Item) -> None:
        """Whether the item can be judged.

        Raises:
            Unusable: it lacks something.
        """

    async def score(self, item: Item) -> list[ResponseScore]:
        """A result for each response of a checked item."""


class RubricScorer:
    """(score − lowest) / (highest − lowest) of a rubric's judge."""

    group_relative = False

    def __init__(self, client: ChatClient, mount: JudgeMount) -> None:
        """Judge as the mount says.

        Raises:
            SettingsError: the scale is none, or has no single-digit scores where it needs them.
        """
        if mount.scale_min >= mount.scale_max:
            raise SettingsError(f"scale_max ({mount.scale_max}) must be above scale_min ({mount.scale_min})")
        self._scale = Scale(mount.scale_min, mount.scale_max)
        if mount.weighting == "logprobs":
            check_scale(self._scale)
        settings = RubricSettings(
            output_format=mount.output_format,
            samples=mount.samples_per_item,
            pooling=mount.samples_pooling,
            weighting=mount.weighting,
            temperature=mount.judge_temperature,
            seed=mount.seed,
        )
        self._judge: SelfCritique[..., RubricDetail] = SelfCritique(
            RubricJudge(client, settings), mount.judge_critique_rounds
        )
        self._rubric = mount.rubric or GENERAL_RUBRIC

    def check(self, item: Item) -> None:
        """Its rubric, if it has one, is of the scale."""
        beyond = next((level for level, _ in item.levels if level not in self._scale.levels), None)
        if beyond is not None:
            raise Unusable(f"rubric: a description of score {beyond}, beyond {self._scale.low} to {self._scale.high}")

    async def score(self, item: Item) -> list[ResponseScore]:
        """Each response by itself."""
        rubric = Rubric(item.rubric or self._rubric, dict(item.levels), self._scale)
        return list(await asyncio.gather(*(self._one(item, response, rubric) for response in item.responses)))

    async def _one(self, item: Item, response: str, rubric: Rubric) -> ResponseScore:
        judgment = await self._judge.judge(
            instruction=item.prompt, response=response, rubric=rubric, reference=item.reference
        )
        if judgment.score is None:
            return response_score([judgment], None, {})
        return response_score([judgment], self._scale.unit(judgment.score), {"raw": judgment.score})


class AspectScorer:
    """The combined score of a panel of aspects."""

    group_relative = False

    def __init__(self, client: ChatClient, mount: JudgeMount) -> None:
        """Judge as the mount says.

        Raises:
            SettingsError: two aspects have the same name.
        """
        self._client, self._mount = client, mount
        self._settings = AspectSettings(mount.strictness, temperature=mount.judge_temperature, seed=mount.seed)
        self._own = self._panel(mount.aspects)

    def _panel(self, aspects: Sequence[object]) -> SelfCritique[..., PanelDetail]:
        panel = AspectPanel(self._client, aspects, self._settings, scoring=self._mount.scoring)  # type: ignore[arg-type]
        return SelfCritique(panel, self._mount.judge_critique_rounds)

    def check(self, item: Item) -> None:
        """Its aspects, if it has any, can be told apart."""
        if item.aspects is not None:
            try:
                self._panel(item.aspects)
            except SettingsError as error:
                raise Unusable(str(error)) from error

    async def score(self, item: Item) -> list[ResponseScore]:
        """Each response by itself."""
        panel = self._own if item.aspects is None else self._panel(item.aspects)
        judged = await asyncio.gather(
            *(
                panel.judge(
                    submission=response,
                    question=item.prompt or None,
                    context=item.context,
                    reference=item.reference,
                )
                for response in item.responses
            )
        )
        return [self._scored(judgment) for judgment in judged]

    def _scored(self, judgment: Judgment[PanelDetail]) -> ResponseScore:
        aspects = judgment.detail.aspects if judgment.detail is not None else ()
        verdicts = {each.aspect: float(each.yes) for each in aspects if each.yes is not None}
        return response_score([judgment], judgment.score, verdicts)


class PeerScorer:
    """A peer's score of 0 to 100, by a rubric in text."""

    group_relative = False

    def __init__(self, client: ChatClient, mount: JudgeMount) -> None:
        """Judge as the mount says."""
        self._judge: SelfCritique[..., PeerDetail] = SelfCritique(PeerJudge(client), mount.judge_critique_rounds)
        self._rubric = mount.rubric or DEFAULT_RUBRIC

    def check(self, item: Item) -> None:
        """Everything can be judged."""

    async def score(self, item: Item) -> list[ResponseScore]:
        """Each response by itself."""
        rubric = item.rubric or self._rubric
        judged = await asyncio.gather(
            *(self._judge.judge(query=item.prompt, response=each, rubric=rubric) for each in item.responses)
        )
        return [
            response_score([each], None if each.score is None else SCALE.unit(each.score), {"raw": each.score or 0.0})
            for each in judged
        ]


class ArenaScorer:
    """The win rate over both orders: against a baseline, or of several responses against each other."""

    group_relative = True

    def __init__(self, client: ChatClient, mount: JudgeMount) -> None:
        """Judge as the mount says."""
        judge = ArenaHardJudge(client, protocol=mount.judge_protocol, reask=mount.judge_reask)
        self._judge: SelfCritique[..., ArenaDetail] = SelfCritique(judge, mount.judge_critique_rounds)

    def check(self, item: Item) -> None:
        """There is something to compare with, and not so much that the battles go into the thousands."""
        if _baseline(item) is not None:
            return
        if len(item.responses) < 2:
            raise Unusable("baseline: expected a baseline, or several responses to compare with each other")
        if len(item.responses) > MOST_COMPARED:
            found = len(item.responses)
            raise Unusable(f"responses: at most {MOST_COMPARED} against each other, found {found}; give a baseline")

    async def score(self, item: Item) -> list[ResponseScore]:
        """Against the baseline, or each pair of responses once (in both orders): the mean of a response's battles."""
        baseline = _baseline(item)
        if baseline is not None:
            judged = await asyncio.gather(
                *(self._battle(item.prompt, response, baseline) for response in item.responses)
            )
            return [response_score([each], _win_rate(each.score), {"raw": each.score or 0.0}) for each in judged]
        pairs = list(combinations(range(len(item.responses)), 2))
        battles = await asyncio.gather(
            *(self._battle(item.prompt, item.responses[one], item.responses[other]) for one, other in pairs)
        )
        return [self._of_group(number, pairs, battles) for number in range(len(item.responses))]

    async def _battle(self, prompt: str, answer: str, baseline: str) -> Judgment[ArenaDetail]:
        return await self._judge.judge(question=prompt, answer=answer, baseline=baseline)

    def _of_group(
        self, number: int, pairs: Sequence[tuple[int, int]], battles: Sequence[Judgment[ArenaDetail]]
    ) -> ResponseScore:
        """A response's mean over its battles; a battle that failed leaves both sides without a score."""
        own = [(pair, battle) for pair, battle in zip(pairs, battles, strict=True) if number in pair]
        rates = [
            rate if pair[0] == number else 1.0 - rate
            for pair, battle in own
            if (rate := _win_rate(battle.score)) is not None
        ]
        mean = sum(rates) / len(rates) if len(rates) == len(own) else None
        return response_score([battle for _, battle in own], mean, {"battles": float(len(own))})


def _baseline(item: Item) -> str | None:
    """What to compare with: the baseline, or the reference of protocols that have no other place for it."""
    return item.reference if item.baseline is None else item.baseline


def _win_rate(score: float | None) -> float | None:
    """A row's reward from −1 to 1 as a win rate from 0 to 1."""
    return None if score is None else (score + 1.0) / 2.0


class ChoiceScorer:
    """1 for the response that the judge chooses as the best, 0 for the others: one call for all of them."""

    group_relative = True

    def __init__(self, client: ChatClient, mount: JudgeMount) -> None:
        """Judge through `client`."""
        self._client, self._seed = client, mount.seed

    def check(self, item: Item) -> None:
        """There are 2 to 26 responses."""
        if not 2 <= len(item.responses) <= MOST_CHOICES:
            raise Unusable(f"responses: expected 2 to {MOST_CHOICES}, found {len(item.responses)}")

    async def score(self, item: Item) -> list[ResponseScore]:
        """The responses in an order that is a function of the seed and the item."""
        order = list(range(len(item.responses)))
        random.Random(derive(self._seed, item.key("choice"), "order")).shuffle(order)
        letters = LETTERS[: len(order)]
        messages = choice_messages(item.prompt, [item.responses[number] for number in order])
        call = await ask(self._client, messages, lambda text: choice_letter(text, letters), name="choice")
        if not isinstance(call.value, str):
            status = Status.JUDGE_FAILED if call.failed else Status.UNPARSABLE
            failed: Judgment[object] = Judgment(None, status, explanation=call.error or "", calls=(call,))
            return [response_score([failed], None, {}) for _ in order]
        best = order[letters.index(call.value)]
        judgments: list[Judgment[object]] = [
            Judgment(float(number == best), Status.OK, "best" if number == best else "not the best", call.text, (call,))
            for number in range(len(order))
        ]
        return [response_score([judgment], judgment.score, {}) for judgment in judgments]


def scorer_of(mount: JudgeMount, client: ChatClient) -> Scorer:
    """The scorer of a mount.

    Raises:
        SettingsError: its settings do not fit together.
    """
    if mount.judge == "rubric":
        return RubricScorer(client, mount)
    if mount.judge == "aspect":
        return AspectScorer(client, mount)
    if mount.judge == "peer":
        return PeerScorer(client, mount)
    return ArenaScorer(client, mount) if mount.judge == "arena_hard" else ChoiceScorer(client, mount)
