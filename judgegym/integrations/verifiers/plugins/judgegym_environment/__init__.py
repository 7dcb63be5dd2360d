"""`judgegym-environment`: the rows of an environment that `task.environment` names."""

from verifiers.v1.harnesses.null import NullHarness

from judgegym.integrations.verifiers.tasksets import EnvironmentTaskset

__all__ = ["EnvironmentTaskset", "NullHarness"]
