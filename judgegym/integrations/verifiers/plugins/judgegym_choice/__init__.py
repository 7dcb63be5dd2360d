"""`judgegym-choice`: the judge that chooses the best reply to a task."""

from judgegym.integrations.verifiers.judges import judge_of

__all__ = ["ChoiceJudge"]

ChoiceJudge = judge_of("choice")
