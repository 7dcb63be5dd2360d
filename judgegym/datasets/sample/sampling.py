"""A row's responses: the policy is asked for them, and the judge about those that can be judged.

Guarantees: all responses of a row are asked for at once; one that the policy never gave, one with malformed thinking, a
refusal or an empty one has no score and its own reason, and costs no call of a judge; the judge sees the others without
their thinking, together, so that a judge that compares responses can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from judgegym.datasets.rows.unit import ScoreTask
from judgegym.datasets.sample.judged import JudgedResponse, ResponseJudge
from judgegym.engine.completions import Conversation, Policy, SampledCompletion, system_text
from judgegym.engine.records import POLICY_FAILED
from judgegym.engine.settings.env import CompletionSettings
from judgegym.judges.core.judgment import Status
from judgegym.judges.core.turns import Turn
from judgegym.judges.scorers.items import ResponseScore, failure
from judgegym.llm.wire import Message


class PolicySampler:
    """Asks for the responses of units, and judges them."""

    def __init__(self, policy: Policy, judging: ResponseJudge) -> None:
        """Ask `policy`, and judge by `judging`."""
        self._policy, self._judging = policy, judging

    async def __call__(self, unit: ScoreTask) -> list[JudgedResponse]:
        """See `FinishUnit`; the unit has no responses yet.

        Raises:
            UserError: what no further call can mend, such as a disk that stays full.
            BudgetSpent: no further request may be sent.
        """
        asked = unit.to_sample
        assert asked is not None  # the units of a run that samples are made so
        conversation = conversation_of(asked.turns, self._policy.config)
        sampled = await self._policy.sample(conversation, asked.count)
        known = [_without_judge(each) for each in sampled]
        # What is not judged is an empty response in its place: the judge is not asked about those.
        texts = tuple("" if result is not None else _answer(each) for each, result in zip(sampled, known, strict=True))
        judged: Sequence[ResponseScore | None] = known
        if any(texts):
            judged = await self._judging.results(unit.uid, replace(unit.item, responses=texts))
        results = (cast(ResponseScore, mine or others) for mine, others in zip(known, judged, strict=True))
        return [
            JudgedResponse(each.completion, result, each.run) for each, result in zip(sampled, results, strict=True)
        ]


def conversation_of(turns: Sequence[Turn], config: CompletionSettings) -> Conversation:
    """The messages of a prompt: its turns, after the system prompt of the settings and its own, in one message."""
    system = [system_text(config, "thinking_assistant"), *(turn.text for turn in turns if turn.role == "system")]
    text = "\n\n".join(part for part in system if part)
    rest = [cast(Message, turn.message()) for turn in turns if turn.role != "system"]
    return [Message(role="system", content=text), *rest] if text else rest


def _answer(sampled: SampledCompletion) -> str:
    return "" if sampled.completion is None else sampled.completion.answer


def _without_judge(sampled: SampledCompletion) -> ResponseScore | None:
    """The result of a response that no judge may be asked about; `None` for any other."""
    if sampled.completion is None:
        return failure(f"the policy at {sampled.error}", POLICY_FAILED)
    why = sampled.completion.unjudgeable
    return None if why is None else failure(why, Status.INVALID_COMPLETION.value)
