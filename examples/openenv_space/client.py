"""The client of this environment."""

from judgegym.integrations.openenv.client import CompletionAction, RowObservation, SingleTurnClient

__all__ = ["CompletionAction", "RowObservation", "SingleTurnClient"]
