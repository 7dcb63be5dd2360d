"""The settings of each kind of judge that change what it asks, what it reads, or what it makes of that."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """One command over many rows.

    Attributes:
        name: unique; it begins with the kind. Its words steer the endpoint (`replies.py`).
        kind: of the judge.
        shape: of the rows (`rows.py`).
        flags: of `judgegym score`.
    """

    name: str
    kind: str
    shape: str
    flags: Mapping[str, object]


_PANEL = [
    {
        "name": "harm",
        "definition": "Does the text threaten or harm anybody?",
        "polarity": -1,
        "veto": True,
        "strictness": 5,
    },
    {"name": "clear", "definition": "Is the submission clear?", "weight": 2.5},
    "correctness",
]
_RATE = "Rate it. [FEEDBACK] … [SCORE] (an integer between 1 and 5)"
_JSON = {"judge_output": "json_schema"}

ALONE: Mapping[str, Mapping[str, tuple[str, Mapping[str, object]]]] = {
    "rubric": {
        "plain": ("single", {}),
        "votes": (
            "single",
            {"samples_per_item": 3, "samples_pooling": "median", "seed": 7, "judge_critique_rounds": 2},
        ),
        "votes_mean": ("three", {"samples_per_item": 4}),
        "soft": ("single", {"weighting": "logprobs", "samples_per_item": 2}),
        "result": (
            "single",
            {
                "output_format": "result",
                "scale_min": 0,
                "scale_max": 9,
                "judge_prompt_layout": "shared_first",
                "rubric": "Is it short?",
            },
        ),
        "levels_json_calm": ("levels", {**_JSON, "judge_critique_rounds": 1}),
        "json_formless_calm": ("levels", {**_JSON, "samples_per_item": 2}),
        "system": ("single", {"judge_system_prompt": _RATE, "judge_conversation_limit": 1000}),
    },
    "aspect": {
        "plain": ("single", {}),
        "panel": ("single", {"aspects": _PANEL, "strictness": 2, "judge_critique_rounds": 2}),
        "share": ("single", {"aspects": "coherence", "strictness": 5, "scoring": "share", "seed": 3}),
        "json_calm": ("single", {**_JSON, "aspects": "coherence,harmfulness", "judge_critique_rounds": 1}),
        "published": ("single", {"aspects": "coherence", "judge_prompt_layout": "published"}),
    },
    "checklist": {
        "plain": ("criteria", {}),
        "each": ("criteria", {"criteria_per_call": 1, "strictness": 3, "formula": "rar"}),
        "cannot": ("criteria", {"criteria_per_call": 2, "cannot_assess": "partial", "formula": "weighted_mean"}),
        "json_calm": ("criteria", {**_JSON, "cannot_assess": "leave_out"}),
    },
    "peer": {
        "plain": ("single", {}),
        "critique": ("single", {"judge_critique_rounds": 2}),
        "shared": (
            "single",
            {"judge_critique_rounds": 1, "judge_prompt_layout": "shared_first", "rubric": "Correctness & Accuracy"},
        ),
        "json_calm": ("single", {**_JSON, "judge_system_prompt": "Be strict."}),
    },
    "arena_hard": {
        "plain": ("games", {}),
        "v01": (
            "games",
            {
                "judge_protocol": "arena_hard_v0.1",
                "judge_prompt_layout": "shared_first",
                "judge_critique_rounds": 2,
            },
        ),
        "json_calm": ("games", {**_JSON, "judge_reask": 0}),
        "together": ("several", {"seed": 2}),
    },
    "choice": {
        "plain": ("several", {}),
        "json_calm": ("several", {**_JSON, "judge_critique_rounds": 1, "seed": 5}),
    },
    "listwise": {
        "plain": ("several", {}),
        "orders": ("several", {"listwise_orders": 2, "rubric": "Is it right?", "judge_reask": 2}),
        "split": ("several", {"judge_max_input_tokens": 900}),
        "json_calm": ("several", _JSON),
    },
    "tournament": {
        "plain": ("several", {}),
        "balanced": ("several", {"schedule": "balanced", "game_orders": "balanced", "seed": 9}),
        "choice": ("several", {"tournament_game": "choice", "schedule": "circular"}),
        "v01": ("several", {"judge_protocol": "arena_hard_v0.1", "schedule": "swiss"}),
    },
    "reward_model": {
        "classify": ("single", {}),
        "score": ("single", {"reward_protocol": "vllm_score", "reward_scale": "raw"}),
        "pooling": (
            "single",
            {
                "reward_protocol": "vllm_pooling",
                "reward_scale": "standardised",
                "reward_mean": 0.1,
                "reward_deviation": 0.5,
            },
        ),
        "openrlhf_batched_calm": (
            "three",
            {"reward_protocol": "openrlhf", "reward_tokenizer": "none", "reward_batch": 4},
        ),
    },
    "rule": {
        "exact": ("single", {"rule": "exact"}),
        "cannot": ("single", {"rule": "contains", "rule_mismatch": "cannot_say"}),
        "number": ("single", {"rule": "number", "rule_expected": 42}),
        "length": ("single", {"rule": "length", "rule_soft_limit": 3, "rule_hard_limit": 9}),
        "repetition": ("single", {"rule": "repetition"}),
    },
}
"""Kinds whose judge is no other judges': settings by name, each with the shape of its rows and its flags."""


def _part(judge: str, **settings: object) -> Mapping[str, object]:
    return {"judge": judge, **settings}


MADE: Mapping[str, Mapping[str, tuple[str, Mapping[str, object]]]] = {
    "jury": {
        "mean": (
            "single",
            {
                "judges": {
                    "a": _part("rubric"),
                    "b": _part("aspect", aspects="coherence,harmfulness"),
                    "c": _part("peer"),
                }
            },
        ),
        "majority": (
            "single",
            {
                "jury_rule": "majority",
                "jury_quorum": 2,
                "jury_weights": {"a": 2, "b": 1, "c": 1.5},
                "judges": {
                    "a": _part("aspect", aspects="coherence", strictness=3),
                    "b": _part("aspect", aspects="correctness"),
                    "c": _part("rule", rule="exact"),
                    "d": _part("peer", judge_model_name="n", judge_temperature=1.0),
                },
            },
        ),
    },
    "composite": {
        "sum": (
            "single",
            {
                "reward": {
                    "style": _part("rubric", weight=0.3),
                    "safe": _part("aspect", aspects="harmfulness", weight=0.5),
                    "note": _part("peer", weight=0),
                    "pen": _part("rule", rule="contains", penalty=0.25, on_failure="leave_out"),
                }
            },
        ),
        "gate": (
            "single",
            {
                "combine": "min",
                "reward": {
                    "safe": _part("aspect", aspects="harmfulness", gate=0.5, otherwise=-1.0),
                    "style": _part("rubric"),
                    "peer": _part("peer"),
                },
            },
        ),
        "first": (
            "single",
            {
                "combine": "first_that_says",
                "reward": {
                    "rule": _part("rule", rule="exact", rule_mismatch="cannot_say"),
                    "style": _part("rubric"),
                },
            },
        ),
        "nested": (
            "single",
            {
                "reward": {
                    "jury": _part(
                        "jury", weight=2, judges={"x": _part("rubric", samples_per_item=2), "y": _part("peer")}
                    ),
                    "casc": _part(
                        "cascade",
                        weight=1,
                        cascade_threshold=0.7,
                        cascade={
                            "cheap": _part("aspect", aspects="coherence,correctness"),
                            "strong": _part("rubric", judge_model_name="big"),
                        },
                    ),
                }
            },
        ),
    },
    "cascade": {
        "margin": (
            "single",
            {
                "cascade_threshold": 0.6,
                "cascade_recheck": 0.3,
                "cascade_share": 0.5,
                "seed": 4,
                "cascade": {"cheap": _part("rubric"), "strong": _part("peer", judge_model_name="big")},
            },
        ),
        "orders": (
            "games",
            {
                "cascade_threshold": 0.6,
                "cascade_confidence": "orders",
                "cascade_recheck": 0.0,
                "cascade": {
                    "cheap": _part("arena_hard"),
                    "strong": _part("arena_hard", judge_model_name="big", judge_protocol="arena_hard_v0.1"),
                },
            },
        ),
    },
}
"""Kinds that are made of judges."""


def _settings() -> Iterator[Setting]:
    for kind, of_kind in {**ALONE, **MADE}.items():
        for name, (shape, flags) in of_kind.items():
            yield Setting(f"{kind}-{name}", kind, shape, flags)


SETTINGS: Sequence[Setting] = tuple(_settings())


def words_of(flags: Mapping[str, object]) -> list[str]:
    """Flags as words of a command line."""
    return [f"--{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in flags.items()]
