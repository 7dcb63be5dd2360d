"""slime's remote reward model: `POST /slime`, answered by a bare number.

The protocol has no field for a failure, and slime trains every number as a reward. So a failed judge is HTTP 503, which
slime sends again for some minutes; then it ends the run. With `on_failure=score` the fallback is sent, with the header
`X-Judge-Failed`; an empty response gets `invalid_completion_score`, with `X-Invalid-Completion`. slime reads no header.

Source: slime, `--rm-type remote_rm`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.judges.core.turns import TextOrMessages, text_of
from judgegym.llm.wire import JSON
from judgegym.server.answers import FailureAnswers
from judgegym.server.protocols.base import Adapter, ProtocolReply, RequestBody
from judgegym.server.protocols.chat_tokens import plain_prompt, plain_response
from judgegym.server.protocols.openrlhf import of_label

FAILED_HEADER = "X-Judge-Failed"
INVALID_HEADER = "X-Invalid-Completion"


class SlimeBody(RequestBody):
    """A prompt (text or messages), a response, and a label: a reference, or an object of it, a rubric and a group."""

    prompt: TextOrMessages
    response: str
    label: object = None


class Slime(Adapter[SlimeBody]):
    """`POST /slime`."""

    name = "slime"
    path = "/slime"
    body = SlimeBody

    def tasks(self, body: SlimeBody, raw: Mapping[str, JSON]) -> list[JudgeTask]:
        """One task."""
        label = of_label(body.label)
        prompt = plain_prompt(body.prompt) if isinstance(body.prompt, str) else text_of(body.prompt)
        response = plain_response(body.response)
        return [
            JudgeTask(
                prompt,
                (response,),
                reference=label.reference,
                rubric=label.rubric,
                levels=label.levels,
                group=label.group,
            )
        ]

    def is_patient(self, answers: FailureAnswers) -> bool:
        """See `Adapter`: its client tries ten times at once."""
        return True

    def reply(
        self,
        body: SlimeBody,
        raw: Mapping[str, JSON],
        results: Sequence[Sequence[ResponseJudgment]],
        answers: FailureAnswers,
    ) -> ProtocolReply:
        """The score as a number."""
        result = results[0][0]
        if result.score is not None:
            return ProtocolReply(result.score)
        header = FAILED_HEADER if result.is_failed else INVALID_HEADER
        return ProtocolReply(answers.number(result), {header: "1"}, failed=result.status)
