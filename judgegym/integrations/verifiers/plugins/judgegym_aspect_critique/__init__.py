"""`judgegym-aspect-critique`: that environment's rows."""

from verifiers.v1.harnesses.null import NullHarness

from judgegym.integrations.verifiers.tasksets import taskset_of

__all__ = ["AspectCritiqueTaskset", "NullHarness"]

AspectCritiqueTaskset = taskset_of("aspect_critique")
