"""The judge of rules: a score from 0 to 1 without a call, or the reason why the rule cannot say.

Guarantees: no text makes it raise. A rule that cannot say is a judgment without a score (`unparsable`) whose detail has
`says=False`; a function of the user's own that raises, or whose process dies, is a failed judgment (`judge_failed`)
without a detail. What no bound on its time is known for runs in a worker process that is killed at the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from judgegym.judges.config.extras import require
from judgegym.judges.core.judge import JudgeDefinition, SingleJudge
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.thinking import after_thinking
from judgegym.judges.rules import match
from judgegym.judges.rules.finding import Finding, RuleCase, cannot_say
from judgegym.judges.rules.measure import length, thinking_format
from judgegym.judges.rules.settings import READS, RuleSettings
from judgegym.judges.rules.worker import FunctionJob, JobFailure, LibraryJob, LibraryRule, apply_in_worker, apply_now
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError


@dataclass(frozen=True, slots=True)
class RuleDetail:
    """What a rule has found.

    Attributes:
        rule: its name.
        says: whether it has a score; `False` if it cannot say.
        found: what was compared; `None` if there was nothing to compare.
        expected: what it was compared with.
    """

    rule: str
    says: bool
    found: str | None
    expected: str | None


_MATCHES: Mapping[str, Callable[[str, str, RuleSettings], Finding]] = {
    "number": lambda text, expected, settings: match.number(text, expected, settings.rule_tolerance),
    "exact": lambda text, expected, _: match.exact(text, expected),
    "normalised": lambda text, expected, _: match.normalised(text, expected),
    "contains": lambda text, expected, _: match.contains(text, expected),
    "multiple_choice": lambda text, expected, _: match.multiple_choice(text, expected),
}
"""The rules that compare the answer with an expected text, in time that is linear in both."""


_OF_EXTRA = ("expression", "json_schema", "language")
"""The rules with a library of the extra `rules`."""


class RuleCaseJudge(SingleJudge[RuleSettings, RuleCase, RuleDetail]):
    """Scores each response by a rule, from 0 to 1."""

    def __init__(self, settings: RuleSettings, client: ChatClient, rubric: str | None = None) -> None:
        """Check the rule; `client` is never asked.

        Raises:
            SettingsError: no rule is named, its expected value is none that it can compare with, its file cannot be
                loaded, or its library is not installed.
        """
        super().__init__(settings, client, rubric)
        if settings.rule is None:
            raise SettingsError(f"rule: expected one of {', '.join(READS)}, or FILE.py:NAME")
        self.rule, expected = settings.rule, settings.rule_expected
        if self.rule in _OF_EXTRA:
            require("rules")
        found: Finding | JobFailure | None = None
        if settings.is_own:
            found = apply_now(FunctionJob(self.rule, None), settings.rule_timeout)
        elif expected is not None and self.rule in _MATCHES:
            found = _MATCHES[self.rule]("", expected, settings)
        elif expected is not None:
            found = apply_now(LibraryJob(cast(LibraryRule, self.rule), "", expected), settings.rule_timeout)
        if isinstance(found, JobFailure):
            raise SettingsError(f"rule: {self.rule}: {found.why}")
        if found is not None and found.is_unusable:
            raise SettingsError(f"rule_expected: {found.why}, found {found.expected!r}")

    def case_of(self, task: JudgeTask) -> RuleCase:
        """The response, and what it may be compared with."""
        return RuleCase(task.prompt, task.response, task.reference, task.context)

    async def judge(self, case: RuleCase) -> Judgment[RuleDetail]:
        """Apply the rule to one response; never raises."""
        finding = await self._finding(case)
        if isinstance(finding, JobFailure):
            return Judgment(None, Status.JUDGE_FAILED, explanation=f"{self.rule}: {finding.why}")
        detail = RuleDetail(self.rule, finding.score is not None, finding.found, finding.expected)
        if finding.score is None:
            return Judgment(None, Status.UNPARSABLE, explanation=f"the rule cannot say: {finding.why}", detail=detail)
        explanation = finding.why or f"found {finding.found!r}, expected {finding.expected!r}"
        return Judgment(finding.score, Status.OK, f"{finding.score:g}", explanation, detail=detail)

    async def _finding(self, case: RuleCase) -> Finding | JobFailure:
        settings, limit_s = self.settings, self.settings.rule_timeout
        if settings.is_own:
            return await apply_in_worker(FunctionJob(self.rule, case), limit_s)
        if self.rule == "length":
            assert settings.rule_hard_limit is not None  # the settings require it
            return length(case.response, settings.rule_length_unit, settings.rule_soft_limit, settings.rule_hard_limit)
        if self.rule == "thinking_format":
            return thinking_format(case.response, opened_by_template=settings.rule_opened_by_template)
        expected = settings.rule_expected
        if expected is None:
            expected = f"={case.prompt}" if self.rule == "language" else case.reference
        if expected is None:
            return cannot_say("the row has no reference, and rule_expected is not set")
        text = after_thinking(case.response)
        if self.rule in _MATCHES:
            return _MATCHES[self.rule](text, expected, settings)
        found = await apply_in_worker(LibraryJob(cast(LibraryRule, self.rule), text, expected), limit_s)
        return cannot_say(found.why) if isinstance(found, JobFailure) else found


JUDGE = JudgeDefinition(
    RuleSettings,
    "score from 0 to 1 by a rule (--rule), without a model",
    RuleCaseJudge,
    (),
    frozenset(("reference", "context")),
    asks_endpoint=False,
)
