"""Settings of judges that are made of others, for `judgegym score`: the shape of the rows, and the flags."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance.equal_judgments.alone import Flags, Scored


def _part(judge: str, **settings: object) -> Flags:
    return {"judge": judge, **settings}


_RULE = _part("rule", rule="exact")
_SETTLES = _part("rule", rule="exact", rule_mismatch="cannot_say")
_ASPECTS = _part("aspect", aspects="coherence,harmfulness")
_COHERENT = _part("aspect", aspects="coherence", strictness=3)
_BIG = _part("rubric", judge_model_name="big")
_THREE: Flags = {"a": _part("rubric"), "b": _ASPECTS, "c": _part("peer")}
_SAMPLE: Mapping[str, list[float]] = {
    "a": [0.1, 0.3, 0.3, 0.5, 0.9, 1.0],
    "b": [0.0, 0.2, 0.25, 0.25, 0.6, 0.7],
    "c": [0.4, 0.5, 0.5, 0.5, 0.55, 0.6],
}
_FOUR: Flags = {
    "a": _COHERENT,
    "b": _part("aspect", aspects="correctness"),
    "c": _RULE,
    "d": _part("peer", judge_model_name="n", judge_temperature=1.0),
}
_SUM: Flags = {
    "style": _part("rubric", weight=0.3),
    "safe": _part("aspect", aspects="harmfulness", weight=0.5),
    "note": _part("peer", weight=0),
    "pen": _part("rule", rule="contains", penalty=0.25, on_failure="leave_out"),
}
_GATED: Flags = {
    "safe": _part("aspect", aspects="harmfulness", gate=0.5, otherwise=-1.0),
    "style": _part("rubric"),
    "peer": _part("peer"),
}
_JURY_IN_IT: Flags = _part(
    "jury", weight=2, judges={"x": _part("rubric", samples_per_item=2), "y": _part("peer")}
)
_CASCADE_IN_IT: Flags = _part(
    "cascade",
    weight=1,
    cascade_threshold=0.7,
    cascade={"cheap": _part("aspect", aspects="coherence,correctness"), "strong": _BIG},
)
_CHEAP_JURY: Flags = _part("jury", judges={"x": _part("rubric"), "y": _part("peer")})
_GAMES: Flags = {
    "cheap": _part("arena_hard"),
    "strong": _part("arena_hard", judge_model_name="big", judge_protocol="arena_hard_v0.1"),
}

MADE: Scored = {
    "jury": {
        "mean": ("single", {"judges": _THREE}),
        "two": ("single", {"judges": {"a": _RULE, "b": _part("peer")}}),
        "majority": (
            "single",
            {
                "jury_rule": "majority",
                "jury_quorum": 2,
                "jury_weights": {"a": 2, "b": 1, "c": 1.5},
                "judges": _FOUR,
            },
        ),
        "median": ("three", {"jury_rule": "median", "judges": _THREE, "judge_critique_rounds": 1}),
        "trimmed": ("single", {"jury_rule": "trimmed_mean", "judges": _FOUR, "jury_quorum": 1}),
        "unanimous": ("single", {"jury_rule": "unanimous", "judges": _THREE}),
        "rank": ("single", {"jury_scale": "rank", "jury_sample": _SAMPLE, "judges": _THREE}),
        "standardised": (
            "single",
            {"jury_scale": "standardised", "jury_sample": _SAMPLE, "judges": _THREE},
        ),
        "models": (
            "levels",
            {"judges": "a,b,large", "judge_temperature": 0, "samples_per_item": 2},
        ),
        "games": (
            "games",
            {"judges": {"a": _part("arena_hard"), "b": _part("arena_hard", judge_model_name="n")}},
        ),
        "checklists": (
            "criteria",
            {"judges": {"a": _part("checklist"), "b": _part("reward_model"), "c": _RULE}},
        ),
        "json_formless_calm": ("single", {"judges": _THREE, "judge_output": "json_schema"}),
        "talks": ("talks", {"judges": _THREE, "judge_conversation_limit": 1000}),
    },
    "composite": {
        "sum": ("single", {"reward": _SUM}),
        "gate": ("single", {"combine": "min", "reward": _GATED}),
        "product": ("three", {"combine": "product", "reward": _THREE}),
        "first": (
            "single",
            {"combine": "first_that_says", "reward": {"rule": _SETTLES, "style": _part("rubric")}},
        ),
        "alternate": (
            "single",
            {"combine": "alternate", "reward": {"a": _part("peer"), "b": _ASPECTS}, "seed": 8},
        ),
        "alternate_three": ("three", {"combine": "alternate", "reward": "peer,rubric,aspect"}),
        "weights": ("single", {"reward": "rubric=0.8,peer=0.2", "judge_critique_rounds": 1}),
        "nested": ("single", {"reward": {"jury": _JURY_IN_IT, "casc": _CASCADE_IN_IT}}),
        "criteria": (
            "criteria",
            {
                "reward": {
                    "list": _part("checklist", weight=1),
                    "model": _part("reward_model", weight=2),
                }
            },
        ),
        "traces": (
            "traces",
            {
                "reward": {
                    "safe": _part(
                        "rule", rule="tool_not_called", rule_expected=["delete_*"], gate=1
                    ),
                    "ends": _part("rule", rule="ends_with_answer"),
                    "quality": _part("rubric", rubric="Is the seat booked?", weight=2),
                    "steps": _part("steps", steps_combine="mean", steps_judge=_part("rubric")),
                }
            },
        ),
        "games": (
            "games",
            {"reward": {"wins": _part("arena_hard", weight=1), "peer": _part("peer", weight=1)}},
        ),
        "json_calm": ("single", {"reward": _SUM, "judge_output": "json_schema"}),
    },
    "cascade": {
        "margin": (
            "single",
            {
                "cascade_threshold": 0.6,
                "cascade_recheck": 0.3,
                "cascade_share": 0.5,
                "seed": 4,
                "cascade": {
                    "cheap": _part("rubric"),
                    "strong": _part("peer", judge_model_name="big"),
                },
            },
        ),
        "orders": (
            "games",
            {
                "cascade_threshold": 0.6,
                "cascade_confidence": "orders",
                "cascade_recheck": 0.0,
                "cascade": _GAMES,
            },
        ),
        "votes": (
            "single",
            {
                "cascade_threshold": 0.8,
                "cascade_confidence": "votes",
                "cascade": {"cheap": _part("rubric", samples_per_item=3), "strong": _BIG},
            },
        ),
        "votes_aspect": (
            "three",
            {
                "cascade_threshold": 0.5,
                "cascade_confidence": "votes",
                "cascade": {"a": _COHERENT, "b": _ASPECTS},
            },
        ),
        "probability": (
            "single",
            {
                "cascade_threshold": 0.3,
                "cascade_confidence": "probability",
                "cascade": {"cheap": _part("rubric", weighting="logprobs"), "strong": _BIG},
            },
        ),
        "members": (
            "single",
            {
                "cascade_threshold": 0.7,
                "cascade_confidence": "members",
                "cascade": {"cheap": _CHEAP_JURY, "strong": _BIG},
            },
        ),
        "models": (
            "levels",
            {"cascade": "small,large", "cascade_threshold": 0.4, "cascade_recheck": 0.5},
        ),
        "rule": (
            "single",
            {"cascade": {"a": _SETTLES, "b": _part("rubric")}, "cascade_threshold": 0.4},
        ),
    },
    "steps": {
        "mean": ("traces", {"steps_judge": _part("rubric")}),
        "min": ("traces", {"steps_combine": "min", "steps_most": 3, "steps_judge": _COHERENT}),
        "product": (
            "traces",
            {"steps_combine": "product", "steps_judge": _ASPECTS, "judge_critique_rounds": 1},
        ),
        "last": ("traces", {"steps_combine": "last", "steps_judge": _CHEAP_JURY}),
        "cascade": (
            "traces",
            {"steps_judge": _part("cascade", cascade={"a": _part("peer"), "b": _BIG})},
        ),
        "plain": ("traces", {}),
    },
}
