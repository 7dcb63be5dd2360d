"""`judgegym-tournament`: the judge that plays games between the replies to a task."""

from judgegym.integrations.verifiers.judges import judge_of

__all__ = ["TournamentJudge"]

TournamentJudge = judge_of("tournament")
