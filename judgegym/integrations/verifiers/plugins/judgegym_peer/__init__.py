"""`judgegym-peer`: the judge that scores a reply from 0 to 100 by a rubric."""

from judgegym.integrations.verifiers.judges import judge_of

__all__ = ["PeerJudge"]

PeerJudge = judge_of("peer")
