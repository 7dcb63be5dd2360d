"""`judgegym-listwise`: the judge that scores all replies to a task in one call."""

from judgegym.integrations.verifiers.judges import judge_of

__all__ = ["ListwiseJudge"]

ListwiseJudge = judge_of("listwise")
