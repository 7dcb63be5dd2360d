"""slime's remote reward model: `POST /slime`, answered by a bare number.

The protocol has no field for a failure, and slime trains every number as a reward. So a failed judge is HTTP 503, which
slime sends again for some minutes; then it ends the run. With `on_failure=score` the fallback is sent, with the header
`X-Judge-Failed`; an empty response gets `invalid_completion_score`, with `X-Invalid-Completion`. slime reads no header.

Source: slime, `--rm-type remote_rm`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judgegym.judges.conversations.messages import TextOrMessages, text_of
from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.llm.wire import JSON
from judgegym.server.answers import FailureAnswers
from judgegym.server.protocols.base import RequestBody
from judgegym.server.protocols.chat_tokens import plain_prompt, plain_response
from judgegym.server.protocols.openrlhf import labelled
from judgegym.server.request import ServerResponse, json_response

FAILED_HEADER = "X-Judge-Failed"
INVALID_HEADER = "X-Invalid-Completion"


class SlimeBody(RequestBody):
    """A prompt (text or messages), a response, a label: a reference, or an object of it, rubric, criteria, group."""

    protocol = "slime"
    path = "/slime"
    answer = "Reward"

    prompt: TextOrMessages
    response: str
    label: object = None

    def tasks(self, raw: Mapping[str, JSON]) -> list[JudgeTask]:
        """One task."""
        prompt = plain_prompt(self.prompt) if isinstance(self.prompt, str) else text_of(self.prompt)
        return [labelled(JudgeTask(prompt, (plain_response(self.response),)), self.label)]

    @classmethod
    def is_patient(cls, answers: FailureAnswers) -> bool:
        """See `RequestBody`: its client tries ten times at once."""
        return True

    def reply(
        self, raw: Mapping[str, JSON], results: Sequence[Sequence[ResponseJudgment]], answers: FailureAnswers
    ) -> ServerResponse:
        """The score as a number."""
        result = results[0][0]
        if result.score is not None:
            return json_response(result.score)
        header = FAILED_HEADER if result.is_failed else INVALID_HEADER
        return json_response(answers.number(result), headers={header: "1"}, failed=result.status)
