"""`judgegym-self-critique`: that environment's rows."""

from verifiers.v1.harnesses.null import NullHarness

from judgegym.integrations.verifiers.tasksets import taskset_of

__all__ = ["NullHarness", "SelfCritiqueTaskset"]

SelfCritiqueTaskset = taskset_of("self_critique")
