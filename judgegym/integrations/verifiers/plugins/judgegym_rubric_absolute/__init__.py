"""`judgegym-rubric-absolute`: that environment's rows."""

from verifiers.v1.harnesses.null import NullHarness

from judgegym.integrations.verifiers.tasksets import taskset_of

__all__ = ["NullHarness", "RubricAbsoluteTaskset"]

RubricAbsoluteTaskset = taskset_of("rubric_absolute")
