"""Rule judge: a score from 0 to 1 without a call, or the reason why the rule cannot say.

Guarantees: no text makes it raise. A rule that cannot say gives a judgment without a score
(`unparsable`) whose detail has `says=False`. A user's function that raises, or whose process dies,
gives a failed judgment (`judge_failed`) without a detail. Rules without a known time bound run in a
worker process that is killed at the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from judgegym.judges.config.extras import require
from judgegym.judges.conversations.turns import ToolCall
from judgegym.judges.core.judge import JudgeDefinition, SingleJudge
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.thinking import cut_thinking
from judgegym.judges.rules import traces
from judgegym.judges.rules.expressions import expression, json_schema, regex
from judgegym.judges.rules.finding import RuleFinding, cannot_say
from judgegym.judges.rules.match import contains, exact, multiple_choice, normalised, number
from judgegym.judges.rules.measure import language, length, repetition, thinking_format
from judgegym.judges.rules.own_function import RuleTask, load_function
from judgegym.judges.rules.settings import READS, RuleSettings
from judgegym.judges.rules.worker import Job, JobFailure, apply_in_worker, apply_now
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError


@dataclass(frozen=True, slots=True)
class RuleDetail:
    """Detail of a rule's judgment.

    Attributes:
        rule: its name.
        says: whether it has a score; `False` if it cannot say.
        found: the value that was compared; `None` if there was none.
        expected: the value it was compared with.
    """

    rule: str
    says: bool
    found: str | None
    expected: str | None


_Match: TypeAlias = Callable[[Any, str], RuleFinding]
"""Compares a response's answer, or its tool calls, with an expected text."""
_COMPARISONS = (
    number,
    exact,
    normalised,
    contains,
    multiple_choice,
    traces.tool_called,
    traces.tool_order,
)
_MATCHES: Mapping[str, _Match] = {comparison.__name__: comparison for comparison in _COMPARISONS}
"""Rules that compare the answer or tool calls with an expected text, in linear time."""
_LIBRARIES = {
    "expression": expression,
    "regex": regex,
    "json_schema": json_schema,
    "language": language,
}
_IN_WORKERS: Mapping[str, Callable[[], _Match]] = {
    **_LIBRARIES,
    "tool_not_called": traces.tool_not_called,
}
"""The rules that a worker applies, each by what loads it."""
_TOOL_RULES = frozenset(("tool_called", "tool_order", "tool_not_called"))
_TRACE_RULES = {"ends_with_answer": traces.ends_with_answer, "tool_errors": traces.tool_errors}


class RuleTaskJudge(SingleJudge[RuleSettings, RuleDetail]):
    """Judge that scores each response by a rule, from 0 to 1."""

    truncates_inputs = False

    def __init__(
        self, settings: RuleSettings, client: ChatClient, rubric: str | None = None
    ) -> None:
        """Check the rule; `client` is never called.

        Raises:
            SettingsError: no rule is named, the rule cannot use its expected value, its file cannot
                be loaded, or its library is not installed.
        """
        super().__init__(settings, client, rubric)
        if settings.rule is None:
            rules = ", ".join(READS)
            raise SettingsError(f"rule: expected one of {rules}, or FILE.py:NAME")
        self.rule, expected = settings.rule, settings.rule_expected
        if self.rule in _LIBRARIES and self.rule != "regex":  # `re` is in the standard library
            require("rules")
        self._match: _Match | None = _MATCHES.get(self.rule)
        if self.rule == "number":
            self._match = partial(number, tolerance=settings.rule_tolerance)
        outcome: RuleFinding | JobFailure | None = None
        if self.rule not in READS:
            outcome = apply_now(
                Job(load_function, (self.rule, settings.rule_digest or ""), None),
                settings.rule_timeout,
            )
        elif expected is not None and self._match is not None:
            outcome = self._match("", expected)
        elif expected is not None:
            outcome = apply_now(self._make_job("", expected), settings.rule_timeout)
        if isinstance(outcome, JobFailure):
            raise SettingsError(f"rule: {self.rule}: {outcome}")
        if outcome is not None and outcome.is_unusable:
            raise SettingsError(f"rule_expected: {outcome.why}, found {outcome.expected!r}")

    async def judge(self, task: JudgeTask) -> Judgment[RuleDetail]:
        """Apply the rule to one response; never raises."""
        finding = await self._apply_rule(task)
        if isinstance(finding, JobFailure):
            return Judgment(None, Status.JUDGE_FAILED, explanation=f"{self.rule}: {finding}")
        if finding.score == 0 and self.settings.rule_mismatch == "cannot_say":
            finding = finding._replace(
                score=None, why=f"found {finding.actual!r}, expected {finding.expected!r}"
            )
        detail = RuleDetail(self.rule, finding.score is not None, finding.actual, finding.expected)
        if finding.score is None:
            return Judgment(
                None,
                Status.UNPARSABLE,
                explanation=f"the rule cannot say: {finding.why}",
                detail=detail,
            )
        explanation = finding.why or f"found {finding.actual!r}, expected {finding.expected!r}"
        return Judgment(
            finding.score,
            Status.OK,
            f"{finding.score:g}",
            explanation,
            detail=detail,
            components={"raw": finding.score},
        )

    async def _apply_rule(self, task: JudgeTask) -> RuleFinding | JobFailure:
        settings, limit_s = self.settings, self.settings.rule_timeout
        response, trace, written = task.response, task.trace, "".join(task.written)
        if self.rule not in READS:
            shown = RuleTask(task.prompt, response, task.reference, task.context, trace, written)
            return await apply_in_worker(
                Job(load_function, (self.rule, settings.rule_digest or ""), (shown,)), limit_s
            )
        if self.rule == "length":
            assert settings.rule_hard_limit is not None  # the settings require it
            return length(
                response,
                settings.rule_length_unit,
                settings.rule_soft_limit,
                settings.rule_hard_limit,
            )
        if self.rule == "repetition":
            return repetition(response)
        if self.rule == "thinking_format":
            return thinking_format(
                written or response, opened_by_template=settings.rule_opened_by_template
            )
        if not trace and self.rule in _TOOL_RULES | _TRACE_RULES.keys():
            return cannot_say(traces.NO_TRACE)
        if self.rule in _TRACE_RULES:
            return _TRACE_RULES[self.rule](trace)
        expected, text = settings.rule_expected, cut_thinking(response)
        if expected is None:
            expected = f"={task.prompt}" if self.rule == "language" else task.reference
        if expected is None:
            return cannot_say("the row has no reference, and rule_expected is not set")
        answer: str | tuple[ToolCall, ...] = text
        if self.rule in _TOOL_RULES:
            answer = tuple(chain.from_iterable(turn.calls for turn in trace))
        if self._match is not None:
            return self._match(answer, expected)
        finding = await apply_in_worker(self._make_job(answer, expected), limit_s)
        if isinstance(finding, JobFailure):
            return cannot_say(finding)
        return finding

    def _make_job(self, answer: str | tuple[ToolCall, ...], expected: str) -> Job:
        return Job(_IN_WORKERS[self.rule], (), (answer, expected))


_ABOUT = "score from 0 to 1 by a rule (--rule), without a model"
_SHOWN = frozenset(("reference", "context"))
JUDGE = JudgeDefinition(RuleSettings, _ABOUT, RuleTaskJudge, (), _SHOWN, asks_endpoint=False)
