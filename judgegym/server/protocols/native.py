"""JudgeGym's own protocol, `POST /v1/score`: one response, or several that may be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, TypeAlias

from pydantic import ConfigDict, Field, field_validator, model_validator
from typing_extensions import Self

from judgegym.judges.aspects.prompt import Aspect, parse_aspects
from judgegym.judges.conversations.images import show_images
from judgegym.judges.conversations.messages import (
    TextOrMessages,
    completion_turns,
    render_completion,
)
from judgegym.judges.conversations.readers import prompt_text, read_tools
from judgegym.judges.conversations.turns import list_images
from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.judges.scorers.fields import make_judge_task
from judgegym.judges.scorers.registry import TASK_FIELDS
from judgegym.llm.wire import JSON
from judgegym.server.answers import FailureAnswers
from judgegym.server.protocols.base import RequestBody, Results, parse_id
from judgegym.server.request import ServerResponse, json_response

RubricField: TypeAlias = str | dict[str, object] | None
"""A rubric in a request: text, or an object of `criteria`, `score1_description`, ….

`parse_rubric` reads it.
"""


GroupId: TypeAlias = Annotated[str, Field(min_length=1, max_length=256)] | int | None
"""The id of a group or of one of its members."""


class ScoreBody(RequestBody):
    """The body of `POST /v1/score`.

    An unknown field is an error: it is probably misspelt, and ignoring it would change the score.

    Attributes:
        prompt: the prompt, as text or as messages.
        response: the response to judge; or
        responses: several responses to the prompt.
        reference: a response that deserves the highest score.
        rubric: the criteria: text, or an object of `criteria` and `score1_description`, ….
        aspects: names, or objects of name, definition, polarity, weight and veto.
        baseline: the response to compare with; a blank text counts as none.
        criteria: criteria with points: a list of texts and objects, or a mapping of names to these.
        context: the text that the response should be grounded in; a list is joined with newlines.
        tools: the definitions of the tools that the policy was offered, as in OpenAI's chat API.
        group: with `response`, the id of its group, for a judge that compares (`--group_size`).
        member: with `response`, its id in the group, by which a repeated request is recognized.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    protocol = "native"
    path = "/v1/score"
    answer = "Score"

    prompt: TextOrMessages = ""
    response: TextOrMessages | None = None
    responses: list[TextOrMessages] | None = Field(default=None, max_length=256)
    reference: str | None = None
    rubric: RubricField = None
    aspects: list[Aspect] | None = Field(default=None, min_length=1)
    baseline: str | None = None
    criteria: list[str | dict[str, object]] | dict[str, object] | None = None
    context: str | list[str] | None = None
    tools: list[dict[str, object]] | None = None
    group: GroupId = None
    member: GroupId = None

    @field_validator("aspects", mode="before")
    @classmethod
    def _index_by_name(cls, value: object) -> object:
        if isinstance(aspects := parse_aspects(value), tuple):
            return list(aspects)
        return aspects

    @model_validator(mode="after")
    def _has_a_response(self) -> Self:
        if (self.response is None) == (self.responses is None):
            raise ValueError("expected either response or responses")
        if self.responses is not None and (self.group is not None or self.member is not None):
            raise ValueError(
                "group and member: only with response; responses are a group of their own"
            )
        return self

    def tasks(self, raw: Mapping[str, JSON]) -> list[JudgeTask]:
        """Make one task."""
        responses = self.responses if self.responses is not None else [self.response or ""]
        fields = {name: getattr(self, name) for name in TASK_FIELDS}
        tools = read_tools(self.tools)
        with show_images():
            task = make_judge_task(
                prompt_text(self.prompt, tools), [*map(render_completion, responses)], fields
            )
            traces = tuple(map(completion_turns, responses))
            images = list_images(completion_turns(self.prompt))
        task = replace(
            task,
            traces=traces,
            tools=tools,
            group=parse_id(self.group),
            member=parse_id(self.member),
        )
        if task.responses:
            return [replace(task, images=images).number_images()]
        return []

    def reply(
        self, raw: Mapping[str, JSON], results: Results, answers: FailureAnswers
    ) -> ServerResponse:
        """Return the result of one response, or `results` of several."""
        if self.responses is not None:
            return json_response(
                {"results": [result_json(result) for result in (results[0] if results else ())]}
            )
        return json_response(result_json(results[0][0]))


def result_json(result: ResponseJudgment) -> dict[str, JSON]:
    """Return a result as JSON."""
    return {
        "score": result.score,
        "status": result.status,
        "label": result.label,
        "explanation": result.explanation,
        "components": dict(result.components),
        "usage": {
            "prompt_tokens": result.usage.prompt_tokens,
            "cached_prompt_tokens": result.usage.cached_prompt_tokens,
            "completion_tokens": result.usage.completion_tokens,
            "cost_usd": result.usage.cost,
            "judge_calls": result.judge_calls,
        },
        "cached": result.cached,
        "shared": result.shared,
        "injection_suspects": result.injection_suspects,
    }
