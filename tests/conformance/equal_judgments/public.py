"""Settings of the judges of `import judgegym`: the class, the shape of the rows, its keywords, and what it is shown.

The client of a public judge waits before it sends a failed request again, so its endpoint makes no
HTTP errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.conformance.equal_judgments.alone import Flags


class PublicJudge(NamedTuple):
    """A public judge; `shown` gives for a keyword of `judge` the column of the rows."""

    judge: str
    shape: str
    keywords: Flags
    shown: Mapping[str, str]


_REFERENCE = {"reference": "reference"}
_CRITIQUE: Flags = {"judge_critique_rounds": 1}
_MEMBERS: Flags = {"a": {"judge": "rubric"}, "b": {"judge": "peer"}}

PUBLIC: Mapping[str, PublicJudge] = {
    "rubric": PublicJudge(
        "RubricJudge", "several", {"rubric": "Is it right?", "samples_per_item": 2}, _REFERENCE
    ),
    "rubric_critique": PublicJudge(
        "RubricJudge", "single", {"rubric": "Is it?", **_CRITIQUE, "scale_max": 9}, {}
    ),
    "aspect": PublicJudge(
        "AspectJudge", "several", {"aspects": "coherence,harmfulness", "strictness": 3}, _REFERENCE
    ),
    "checklist": PublicJudge(
        "ChecklistJudge", "criteria", {}, {"criteria": "criteria", **_REFERENCE}
    ),
    "arena_hard": PublicJudge("ArenaHardJudge", "games", _CRITIQUE, {"baseline": "baseline"}),
    "peer": PublicJudge("PeerJudge", "several", _CRITIQUE, {}),
    "rule": PublicJudge("RuleJudge", "single", {"rule": "exact"}, _REFERENCE),
    "reward": PublicJudge(
        "RewardJudge", "single", {"reward": {"a": {"judge": "rubric"}, "b": {"judge": "peer"}}}, {}
    ),
    "jury": PublicJudge("Jury", "several", {"judges": _MEMBERS, "jury_rule": "median"}, {}),
    "cascade": PublicJudge(
        "Cascade", "several", {"cascade": _MEMBERS, "cascade_threshold": 0.5}, {}
    ),
    "steps": PublicJudge("Steps", "single", {"steps_judge": {"judge": "rubric"}}, {}),
    "reward_model": PublicJudge("RewardModel", "several", {"reward_scale": "raw"}, {}),
    "listwise": PublicJudge("ListwiseJudge", "several", {"listwise_orders": 2}, {}),
    "tournament": PublicJudge("TournamentJudge", "several", {"schedule": "swiss"}, {}),
}
