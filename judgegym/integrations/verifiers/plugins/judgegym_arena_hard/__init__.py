"""`judgegym-arena-hard`: the judge that compares a reply with a baseline, and that environment's rows."""

from verifiers.v1.harnesses.null import NullHarness

from judgegym.integrations.verifiers.judges import judge_of
from judgegym.integrations.verifiers.tasksets import taskset_of

__all__ = ["ArenaHardJudge", "ArenaHardTaskset", "NullHarness"]

ArenaHardJudge = judge_of("arena_hard")
ArenaHardTaskset = taskset_of("arena_hard")
