"""The client of this environment."""

from judgegym_trainers.openenv.client import CompletionAction, RowObservation, SingleTurnClient

__all__ = ["CompletionAction", "RowObservation", "SingleTurnClient"]
