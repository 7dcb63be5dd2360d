"""The judge of rules: a score from 0 to 1 without a call, or the reason why the rule cannot say.

Guarantees: no text makes it raise. A rule that cannot say is a judgment without a score (`unparsable`) whose detail has
`says=False`; a function of the user's own that raises, or whose process dies, is a failed judgment (`judge_failed`)
without a detail. What no bound on its time is known for runs in a worker process that is killed at the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from judgegym.judges.core.judge import JudgeDefinition, SingleJudge
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.thinking import after_thinking
from judgegym.judges.rules import match
from judgegym.judges.rules.finding import Finding, RuleCase, cannot_say
from judgegym.judges.rules.settings import READS, RuleSettings
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


class RuleCaseJudge(SingleJudge[RuleSettings, RuleCase, RuleDetail]):
    """Scores each response by a rule, from 0 to 1."""

    def __init__(self, settings: RuleSettings, client: ChatClient, rubric: str | None = None) -> None:
        """Check the rule; `client` is never asked.

        Raises:
            SettingsError: no rule is named.
        """
        super().__init__(settings, client, rubric)
        if settings.rule is None:
            raise SettingsError(f"rule: expected one of {', '.join(READS)}, or FILE.py:NAME")
        self.rule = settings.rule

    def case_of(self, task: JudgeTask) -> RuleCase:
        """The response, and what it may be compared with."""
        return RuleCase(task.prompt, task.response, task.reference, task.context)

    async def judge(self, case: RuleCase) -> Judgment[RuleDetail]:
        """Apply the rule to one response; never raises."""
        finding = self._match(case)
        detail = RuleDetail(self.rule, finding.score is not None, finding.found, finding.expected)
        if finding.score is None:
            return Judgment(None, Status.UNPARSABLE, None, f"the rule cannot say: {finding.why}", (), detail)
        explanation = finding.why or f"found {finding.found!r}, expected {finding.expected!r}"
        return Judgment(finding.score, Status.OK, f"{finding.score:g}", explanation, (), detail)

    def _match(self, case: RuleCase) -> Finding:
        expected = case.reference if self.settings.rule_expected is None else self.settings.rule_expected
        if expected is None:
            return cannot_say("the row has no reference, and rule_expected is not set")
        return _MATCHES[self.rule](after_thinking(case.response), expected, self.settings)


JUDGE = JudgeDefinition(
    RuleSettings,
    "score from 0 to 1 by a rule (--rule), without a model",
    RuleCaseJudge,
    (),
    frozenset(("reference", "context")),
    asks_endpoint=False,
)
