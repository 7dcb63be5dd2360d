"""Remote rewards of OpenRLHF, `POST /get_reward`, and of slime, `POST /slime`.

OpenRLHF reads no flag: it trains every number as a reward. A failed judge is therefore HTTP 503,
which its client retries five times; then the sample has no reward, which ends the run. With
`on_failure=score` the fallback is sent, flagged in `extra_logs.judge_failed`, also by an overloaded
server. If the response cannot be found in a query, that is HTTP 422 without a judge call; with
`on_failure=score` it is a failure. An empty response gets `invalid_completion_score`, flagged in
`extra_logs.invalid_completion`, and costs no call.

Source: OpenRLHF 0.11, its remote reward model client.

slime expects a bare number. The protocol has no field for a failure, and slime trains every number
as a reward. A failed judge is therefore HTTP 503, which slime retries for some minutes before it
ends the run. With `on_failure=score` the fallback is sent, with the header `X-Judge-Failed`; an
empty response gets `invalid_completion_score`, with `X-Invalid-Completion`. slime reads no header.

Source: slime, `--rm-type remote_rm`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from pydantic import Field, model_validator
from typing_extensions import Self

from judgegym.judges.conversations.messages import TextOrMessages, render_conversation
from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment, make_failure
from judgegym.judges.scorers.fields import make_judge_task, parse_criteria, parse_rubric
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.server.answers import FailureAnswers, RequestError
from judgegym.server.protocols.base import RequestBody, Results, parse_id
from judgegym.server.protocols.chat_tokens import (
    NOT_FOUND,
    find_response,
    plain_prompt,
    plain_response,
)
from judgegym.server.request import ServerResponse, json_response

_SHOWN = 80
_TEXTS = ("context", "baseline")


class RewardBody(RequestBody):
    """OpenRLHF's body of parallel lists: queries, prompts, and labels (references) or null.

    A query is the text of prompt and response.
    """

    protocol = "openrlhf"
    path = "/get_reward"
    answer = "Rewards"

    query: list[str] = Field(max_length=4096)
    prompts: list[str] = Field(default_factory=list)
    labels: list[object] | None = None

    @model_validator(mode="after")
    def _is_parallel(self) -> Self:
        if len(self.prompts) != len(self.query) or (
            self.labels is not None and len(self.labels) != len(self.query)
        ):
            queries = len(self.query)
            prompts = len(self.prompts)
            labels = ""
            if self.labels is not None:
                label_count = len(self.labels)
                labels = f" and {label_count} labels"
            raise ValueError(
                f"expected lists of one length, found {queries} queries, {prompts} prompts{labels}"
            )
        return self

    def tasks(self, raw: Mapping[str, JSON]) -> list[JudgeTask]:
        """Make a task for each query; its response is the query without its prompt."""
        labels = self.labels or [None] * len(self.query)
        rows = zip(self.query, self.prompts, labels, strict=True)
        tasks: list[JudgeTask] = []
        for index, (query, prompt, label) in enumerate(rows):
            response = find_response(query, prompt)
            fault = None
            if response is None:
                fault = f"query[{index}]: {NOT_FOUND}"
            task = add_label(
                JudgeTask(plain_prompt(prompt), (plain_response(response or ""),), fault=fault),
                label,
            )
            tasks.append(task)
        return tasks

    def reply(
        self, raw: Mapping[str, JSON], results: Results, answers: FailureAnswers
    ) -> ServerResponse:
        """Return the rewards in the order of the queries."""
        return _rewards_response([*chain.from_iterable(results)], answers)

    @classmethod
    def is_patient(cls, answers: FailureAnswers) -> bool:
        """See `RequestBody`: the client retries for five seconds only."""
        return True

    @classmethod
    def reply_to_error(
        cls, raw: Mapping[str, JSON], error: RequestError, answers: FailureAnswers
    ) -> ServerResponse:
        """Return flagged fallbacks if the server is overloaded or its judge unreachable.

        That needs `on_failure=score`.

        Raises:
            RequestError: the error.
        """
        queries = raw.get("query")
        sends_fallback = answers.on_failure == "score" and error.kind in (
            "overloaded",
            "judge_away",
        )
        if not sends_fallback or not isinstance(queries, list):
            raise error
        return _rewards_response([make_failure(error.message)] * len(queries), answers)


def _rewards_response(
    results: Sequence[ResponseJudgment], answers: FailureAnswers
) -> ServerResponse:
    rewards: list[JSON] = [answers.choose_score(result) for result in results]
    logs: dict[str, JSON] = {
        "judge_failed": [float(result.is_failed) for result in results],
        "invalid_completion": [float(result.is_invalid) for result in results],
    }
    failed = next((result.status for result in results if result.score is None), None)
    return json_response({"rewards": rewards, "scores": rewards, "extra_logs": logs}, failed=failed)


def add_label(task: JudgeTask, label: object) -> JudgeTask:
    """Return the task with its label: a reference, or a JSON object of further fields.

    The object may have reference, rubric, criteria, context and baseline. Its `group` is the id of
    the row, which separates its samples from those of an identical row.

    Raises:
        ValueError: the object's rubric is neither text nor an object, or another field cannot be
            read.
    """
    fields = label
    if isinstance(label, str) and label.lstrip().startswith("{"):
        fields = wire.loads_or_none(label)
    if not (
        isinstance(fields, Mapping) and {"reference", "rubric", "criteria", *_TEXTS} & fields.keys()
    ):
        return replace(task, reference=_format_label(label))
    rubric = fields.get("rubric")
    if not isinstance(rubric, str | dict | None):
        excerpt = str(label)
        kind = type(rubric).__name__
        if len(excerpt) > _SHOWN:
            excerpt = f"{excerpt[:_SHOWN]}…"
        raise ValueError(f"labels: the rubric of {excerpt} is {kind}; expected text or an object")
    text, levels = parse_rubric(rubric)
    criteria = parse_criteria(fields.get("criteria"))
    reference = _format_label(fields.get("reference"))
    group = parse_id(fields.get("group"))
    texts = make_judge_task("", (), {name: fields.get(name) for name in _TEXTS})
    task = replace(task, context=texts.context, baseline=texts.baseline)
    return replace(
        task, reference=reference, rubric=text, levels=levels, criteria=criteria, group=group
    )


def _format_label(label: object) -> str | None:
    if label is None or label == "":
        return None
    return str(label)


FAILED_HEADER = "X-Judge-Failed"
INVALID_HEADER = "X-Invalid-Completion"


class SlimeBody(RequestBody):
    """slime's body: a prompt (text or messages), a response, and a label.

    A label is a reference, or an object of reference, rubric, criteria and group.
    """

    protocol = "slime"
    path = "/slime"
    answer = "Reward"

    prompt: TextOrMessages
    response: str
    label: object = None

    def tasks(self, raw: Mapping[str, JSON]) -> list[JudgeTask]:
        """Make one task."""
        if isinstance(self.prompt, str):
            prompt = plain_prompt(self.prompt)
        else:
            prompt = render_conversation(self.prompt)
        return [add_label(JudgeTask(prompt, (plain_response(self.response),)), self.label)]

    @classmethod
    def is_patient(cls, answers: FailureAnswers) -> bool:
        """See `RequestBody`: the client tries ten times without a pause."""
        return True

    def reply(
        self, raw: Mapping[str, JSON], results: Results, answers: FailureAnswers
    ) -> ServerResponse:
        """Return the score as a number."""
        result = results[0][0]
        if result.score is not None:
            return json_response(result.score)
        header = INVALID_HEADER
        if result.is_failed:
            header = FAILED_HEADER
        return json_response(
            answers.choose_score(result), headers={header: "1"}, failed=result.status
        )
