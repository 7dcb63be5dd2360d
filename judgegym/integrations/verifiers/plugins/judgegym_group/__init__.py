"""`judgegym-group`: the Env of n attempts that are judged against each other."""

from judgegym.integrations.verifiers.groups import GroupEnv

__all__ = ["GroupEnv"]
