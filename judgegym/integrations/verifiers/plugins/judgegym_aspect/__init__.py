"""`judgegym-aspect`: the judge that asks yes/no questions about a reply."""

from judgegym.integrations.verifiers.judges import judge_of

__all__ = ["AspectJudge"]

AspectJudge = judge_of("aspect")
