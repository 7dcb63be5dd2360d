"""`judgegym-rubric`: the judge that scores a reply by a rubric."""

from judgegym.integrations.verifiers.judges import judge_of

__all__ = ["RubricJudge"]

RubricJudge = judge_of("rubric")
