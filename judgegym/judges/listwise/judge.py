"""Listwise judge: scores all answers of a group in one call, or in two with the reverse order.

Guarantees: an answer's score depends on the answers, not on their order in the task. Neutral ids
tell the judge's scores apart. Equal answers, also one that equals the anchor, are shown once and
have one score. The turns that all conversations begin with are shown once. An answer without a
verdict has no score:

* With two orders, if one of them has no verdict after its repairs, its answers have no score: the
  other order alone would keep the preference for a place that the second order removes.
* With chunks (`judge_max_input_tokens`), a chunk without a verdict costs only its own answers, and
  an answer that fits into no prompt costs none of the others.
* With an anchor that has no verdict, no answer has a score.

If all answers are equal, the anchor included, all get 0.5 without a call: each is as good as every
other. That is no failure, and no reason to judge them again; a trainer learns nothing from equal
scores anyway.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from judgegym.judges.conversations.turns import continuation, shared_turns
from judgegym.judges.core.group import (
    GROUP_FIELDS,
    AnswerCollector,
    GroupInProgress,
    GroupJudge,
    GroupJudgment,
    MemberDetail,
)
from judgegym.judges.core.judge import JudgeDefinition
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.listwise.asking import (
    ChunkResult,
    ask_order,
    build_judgments,
    count_agreement,
    divide_texts,
)
from judgegym.judges.listwise.prompt import (
    LISTWISE_PROMPT,
    TITLES,
    ListwiseJudgeSettings,
    shared_texts,
)
from judgegym.llm.at_once import gather_results
from judgegym.llm.client import ChatClient

_TOO_FEW = "there is nothing to compare: a group needs two members, the anchor included"
_ALL_EQUAL = "All answers are equal: each is as good as every other, and no judge was asked."
_EQUAL = 0.5


class ListwiseGroupJudge(GroupJudge):
    """Judge that scores the answers of a group in one call for each order."""

    settings: ListwiseJudgeSettings
    max_responses = 256

    def __init__(
        self, settings: ListwiseJudgeSettings, client: ChatClient, rubric: str | None = None
    ) -> None:
        """Judge as the settings say through `client`; `rubric` is for tasks without one."""
        super().__init__(settings, rubric)
        self.client = client

    async def judge(self, task: JudgeTask) -> GroupJudgment:
        """Ask for the scores of all answers at once.

        Returns:
            For each answer the score that the judge gave it, from 0 to 1, the mean of two orders;
            with an anchor `0.5 + (score − score of the anchor) / 2`, where both stood in the same
            prompt. Never raises because of a judge's answer.
        """
        texts = _distinct_texts(task)
        if len(task.responses) + (task.baseline is not None) < 2:
            return _judge_without_call(
                task, Judgment(None, Status.JUDGE_FAILED, explanation=_TOO_FEW)
            )
        if len(texts) == 1:
            equal = Judgment(
                _EQUAL, Status.OK, "equal", _ALL_EQUAL, detail=MemberDetail((), _EQUAL)
            )
            return _judge_without_call(task, equal)
        beginning = _shared_beginning(texts)
        return await self._judge_distinct(
            _cut_beginning(task, beginning), shared_texts(task, beginning)
        )

    def start(self, task: JudgeTask, size: int) -> GroupInProgress:
        """Begin a group; its answers are judged together when it is closed."""
        return AnswerCollector(lambda responses: self.judge(replace(task, responses=responses)))

    async def _judge_distinct(self, task: JudgeTask, shared: Mapping[str, str]) -> GroupJudgment:
        """Return the judgments of answers of which at least two differ, the anchor included."""
        texts = _distinct_texts(task)
        titled = [(TITLES[name], text) for name, text in shared.items()]
        key = _digest_texts([*chain.from_iterable(titled), *texts])
        divided = partial(divide_texts, shared, texts, self.settings, key, task.baseline)
        # With a limit in a thread: the tokenizer's table may be downloaded first, and long answers
        # take a while.
        has_limit = self.settings.judge_max_input_tokens is not None
        if has_limit:
            chunks = await asyncio.to_thread(divided)
        else:
            chunks = divided()
        prefixes = [""] * len(chunks.shown)
        if len(chunks.shown) > 1:
            prefixes = [f"chunk_{number}_" for number, _ in enumerate(chunks.shown, 1)]
        results = await gather_results(
            self._judge_chunk(shared, shown, key, prefix)
            for shown, prefix in zip(chunks.shown, prefixes, strict=True)
        )
        members = build_judgments(task, shared, chunks, results)
        if members:
            orders = chain.from_iterable(result.orders for result in results)
            calls = tuple(chain.from_iterable(order.calls for order in orders))
            members[0] = replace(members[0], calls=calls)
        return GroupJudgment(tuple(members), count_agreement(results))

    async def _judge_chunk(
        self, shared: Mapping[str, str], shown: Sequence[str], key: str, prefix: str
    ) -> ChunkResult:
        orders = (shown, shown[::-1])[: self.settings.listwise_orders]
        requests = (
            ask_order(
                self.client, self.settings, shared, order, key=key, name=f"{prefix}order_{number}"
            )
            for number, order in enumerate(orders, start=1)
        )
        return ChunkResult(tuple(await gather_results(requests)))


def _distinct_texts(task: JudgeTask) -> list[str]:
    """Return the distinct texts of the group, the anchor included, sorted."""
    compared = {*task.responses}
    if task.baseline is not None:
        compared.add(task.baseline)
    return sorted(compared)


def _shared_beginning(texts: Sequence[str]) -> str:
    """Return the turns that all texts begin with.

    There are no shared turns if different texts would be equal without them, which means that they
    imitate turns.
    """
    beginning = shared_turns(texts)
    continuations = {continuation(text, beginning) for text in texts}
    if len(continuations) < len(texts):
        return ""
    return beginning


def _cut_beginning(task: JudgeTask, beginning: str) -> JudgeTask:
    """Return the task with each answer cut to the part after the shared turns."""
    anchor = None
    if task.baseline is not None:
        anchor = continuation(task.baseline, beginning)
    return replace(
        task,
        responses=tuple(continuation(text, beginning) for text in task.responses),
        baseline=anchor,
    )


def _judge_without_call(task: JudgeTask, judgment: Judgment[MemberDetail]) -> GroupJudgment:
    return GroupJudgment(tuple(judgment for _ in task.responses))


def _digest_texts(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


JUDGE = JudgeDefinition(
    ListwiseJudgeSettings,
    "a score for each of several responses, in one call",
    ListwiseGroupJudge,
    (LISTWISE_PROMPT,),
    GROUP_FIELDS,
    reads_rubric=True,
    most_together=ListwiseGroupJudge.max_responses,
)
