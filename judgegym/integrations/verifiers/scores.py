"""Where the plugins get their scores: a reward server or a judge in this process, and what is sent to it of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import verifiers.v1 as vf
from pydantic import Field, model_validator
from typing_extensions import Self

from judgegym.integrations.scores.requests import Field as Cell
from judgegym.integrations.scores.requests import conversation_json, fields_of
from judgegym.integrations.scores.scoring import RewardScorer
from judgegym.integrations.scores.settings import secret_in
from judgegym.integrations.scores.sources import DEADLINE_S, TIMEOUT_S, JudgeSource, SharedScorings
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

_SCORINGS = SharedScorings()


def refuse_secrets(settings: Mapping[str, object], within: str = "") -> None:
    """Refuse keys among settings, which verifiers writes into the run's directory.

    Raises:
        ValueError: there is one.
    """
    found = secret_in(settings, within)
    if found is not None:
        raise ValueError(found)


class ScoresConfig(vf.BaseConfig):
    """A reward server, or a judge in this process."""

    url: str = ""
    """URL of the reward server, such as http://127.0.0.1:8400; empty for a judge in this process."""
    mount: str = ""
    """Name of a judge at the server; empty for the judge at the root."""
    token_env: str = ""
    """Environment variable with the server's bearer token."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of a judge in this process, under the server's names, such as `judge_model_name`."""
    offline: bool = False
    """Judge with the stand-in in this process; its scores mean nothing."""
    timeout_s: float = TIMEOUT_S
    """Seconds for one attempt at the server."""
    deadline_s: float = DEADLINE_S
    """Seconds within which there is a score, or the judge has failed."""
    invalid_completion_score: float = Field(0.0, allow_inf_nan=False)
    """Reward of an empty completion, about which no judge is asked."""

    view: Literal["last_reply", "full_trace"] = "last_reply"
    """What of a trace is judged."""
    rubric: str = ""
    """Rubric of tasks that have none."""
    question_field: str = ""
    """The task's field with the question; empty for its prompt."""
    reference_field: str = "answer"
    """The task's field with the reference, and so on. A task without it has none; one of another name must exist."""
    rubric_field: str = "rubric"
    aspects_field: str = "aspects"
    baseline_field: str = "baseline"
    context_field: str = "context"

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        refuse_secrets(self.settings, "settings")
        refuse_secrets({"url": self.url, "base_url": getattr(self, "base_url", "")})
        if self.url and (self.settings or self.offline):
            raise ValueError(f"{'settings' if self.settings else 'offline'}: only without url; the server has its own")
        if not self.url and (self.mount or self.token_env):
            raise ValueError(f"{'mount' if self.mount else 'token_env'}: only with url")
        return self

    def scoring(self, settings: Mapping[str, object]) -> RewardScorer:
        """What scores; shared by all traces of the process.

        Args:
            settings: of the judge, for one in this process.

        Raises:
            SettingsError: a setting cannot work, or the token's variable is not set.
        """
        source = JudgeSource(
            self.url or None,
            None if self.url else settings,
            offline=self.offline,
            token_env=self.token_env or None,
            mount=self.mount,
            timeout_s=self.timeout_s,
            deadline_s=self.deadline_s,
        )
        return _SCORINGS.of(source)

    def fields(self, task: vf.TaskData) -> dict[str, JSON]:
        """The fields of a request that come from the task.

        Raises:
            CellError: a field cannot be sent to a judge.
            SettingsError: the task has no question, or not a field that a setting names.
        """
        names: Mapping[Cell, str] = {
            "reference": self.reference_field,
            "rubric": self.rubric_field,
            "aspects": self.aspects_field,
            "baseline": self.baseline_field,
            "context": self.context_field,
        }
        for cell, name in names.items():
            setting = f"{cell}_field"
            if name and name != type(self).model_fields[setting].default and not hasattr(task, name):
                raise SettingsError(f"{setting}: the task has no field {name!r}")
        found = fields_of({cell: getattr(task, name, None) for cell, name in names.items() if name})
        if self.rubric:
            found.setdefault("rubric", self.rubric)
        return {"prompt": self._prompt(task), **found}

    def response(self, trace: vf.Trace) -> JSON:
        """The last reply; with `view=full_trace`, all messages since the policy's first one, calls of tools too."""
        branches = trace.branches
        nodes = branches[-1].nodes if self.view == "full_trace" and branches else []
        first = next((place for place, node in enumerate(nodes) if node.sampled), None)
        if first is None:
            return str(trace.last_reply)
        return conversation_json([node.message.model_dump(exclude_none=True) for node in nodes[first:]])

    def _prompt(self, task: vf.TaskData) -> JSON:
        if not self.question_field:
            given = task.prompt or ""
            if isinstance(given, str):
                return given
            return conversation_json([message.model_dump(exclude_none=True) for message in given])
        question = getattr(task, self.question_field, None)
        if not isinstance(question, str):
            raise SettingsError(f"question_field: the task has no text in {self.question_field!r}")
        return question
