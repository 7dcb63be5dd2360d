"""NeMo Gym's `POST /compare`: the rewards of several responses to one conversation, for judges that compare.

The rewards are from 0 to 1. The answer has a number for each response and no other way to say that there is none:
a response that the judge failed to score gets the mean of the other rewards, which leaves their advantages as they are;
`metrics.judge_failed` counts such responses, and `comparison_results` says which they are and why. With
`on_failure=http`, and where no response has a reward, the answer is HTTP 503.

Source: NeMo Gym 0.5, its GenRM server and the client of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from pydantic import Field

from judgegym.judges.core.turns import transcript, turn_of_item
from judgegym.judges.scorers.items import Item, ResponseScore
from judgegym.judges.scorers.settings import MOST_TOGETHER, JudgeKind
from judgegym.llm.wire import JSON
from judgegym.server.answers import FailureAnswers, refusal
from judgegym.server.protocols.base import Adapter, ProtocolReply, RequestBody
from judgegym.server.protocols.nemo_gym import PolicyResponse, final_answer, mount_of_row


class CompareBody(RequestBody):
    """A conversation up to where the responses part, the responses, and what makes one good."""

    conversation_history: list[dict[str, object]]
    response_objs: list[PolicyResponse] = Field(max_length=256)
    principle: str | None = None
    judge_mount: str | None = None


class NemoGymCompare(Adapter[CompareBody]):
    """`POST /compare`."""

    name = "nemo_gym_compare"
    path = "/compare"
    body = CompareBody

    def check_judge(self, kind: JudgeKind) -> None:
        """Check that the judge compares."""
        if kind not in MOST_TOGETHER:
            others = ", ".join(MOST_TOGETHER)
            raise ValueError(f"/compare: the judge {kind} sees each response by itself; expected one of {others}")

    def items(self, body: CompareBody, raw: Mapping[str, JSON]) -> list[Item]:
        """One item with all responses; the principle is the criteria."""
        prompt = transcript([turn_of_item(turn) for turn in body.conversation_history])
        responses = tuple(final_answer(response.output) for response in body.response_objs)
        return [Item(prompt, responses, rubric=body.principle or None)] if responses else []

    def reply(
        self,
        body: CompareBody,
        raw: Mapping[str, JSON],
        results: Sequence[Sequence[ResponseScore]],
        answers: FailureAnswers,
    ) -> ProtocolReply:
        """Rewards in the order of the responses.

        Raises:
            RequestError: no response has a reward; or one has none, and that is to be told by HTTP.
        """
        of_all = results[0] if results else ()
        known = [None if result.is_failed else answers.number(result) for result in of_all]
        others = [reward for reward in known if reward is not None]
        failed = next((result for result in of_all if result.is_failed), None)
        if failed is not None and (answers.on_failure == "http" or not others):
            raise refusal(failed)
        mean = statistics.fmean(others) if others else 0.0
        rewards: list[JSON] = [mean if reward is None else reward for reward in known]
        metrics: dict[str, JSON] = {
            "mean_reward": mean,
            "std_reward": statistics.pstdev(others) if others else 0.0,
            "judge_failed": float(sum(result.is_failed for result in of_all)),
            "judge_calls": float(sum(result.judge_calls for result in of_all)),
        }
        compared: list[JSON] = [
            {
                **result.components,
                "response_i": place,
                "status": result.status,
                "judge_failed": result.is_failed,
                "explanation": result.explanation,
            }
            for place, result in enumerate(of_all)
        ]
        return ProtocolReply(
            {"rewards": rewards, "comparison_results": compared, "metrics": metrics},
            failed=None if failed is None else failed.status,
        )

    def mount_of(self, raw: Mapping[str, JSON]) -> str | None:
        """The body's `judge_mount`."""
        return mount_of_row(raw)
