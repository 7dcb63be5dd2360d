"""`judgegym-pairwise-judgement`: that environment's rows."""

from verifiers.v1.harnesses.null import NullHarness

from judgegym.integrations.verifiers.tasksets import taskset_of

__all__ = ["NullHarness", "PairwiseJudgementTaskset"]

PairwiseJudgementTaskset = taskset_of("pairwise_judgement")
