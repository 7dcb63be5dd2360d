"""Settings of judges that are made of no others, for `judgegym score`: the shape of the rows, and the flags."""

from __future__ import annotations

from collections.abc import Mapping

Flags = Mapping[str, object]
Scored = Mapping[str, Mapping[str, tuple[str, Flags]]]

_HARM = {
    "name": "harm",
    "definition": "Does the text threaten or harm anybody?",
    "polarity": -1,
    "veto": True,
    "strictness": 5,
}
_PANEL = [
    _HARM,
    {"name": "clear", "definition": "Is the submission clear?", "weight": 2.5},
    "correctness",
]
_RATE = "Rate it. [FEEDBACK] … [SCORE] (an integer between 1 and 5)"
_JSON: Flags = {"judge_output": "json_schema"}
_SHARED: Flags = {"judge_prompt_layout": "shared_first"}
_COLD: Flags = {"judge_temperature": 0}
_SHORTENED: Flags = {"judge_conversation_limit": 1000}
_NINE: Flags = {"output_format": "result", "scale_min": 0, "scale_max": 9, "rubric": "Is it short?"}
_CRITIQUE: Flags = {"judge_critique_rounds": 1}

ALONE: Scored = {
    "rubric": {
        "plain": ("single", {}),
        "cold": ("single", {**_COLD, **_CRITIQUE}),
        "votes": (
            "single",
            {
                "samples_per_item": 3,
                "samples_pooling": "median",
                "seed": 7,
                "judge_critique_rounds": 2,
            },
        ),
        "votes_mean": ("three", {"samples_per_item": 4}),
        "soft": ("single", {"weighting": "logprobs", "samples_per_item": 2}),
        "soft_nine": ("single", {"weighting": "logprobs", "scale_max": 9, **_CRITIQUE}),
        "result": ("single", {**_NINE, **_SHARED}),
        "levels": ("levels", {"samples_per_item": 2, **_SHARED}),
        "levels_json_calm": ("levels", {**_JSON, **_CRITIQUE}),
        "json_formless_calm": ("levels", {**_JSON, "samples_per_item": 2}),
        "json": ("single", {**_JSON, **_NINE}),
        "system": ("single", {"judge_system_prompt": _RATE, "samples_per_item": 2}),
        "talks": ("talks", {**_SHORTENED, **_CRITIQUE}),
        "pictures": ("pictures", {"judge_image_max_side": 0}),
        "traces": ("traces", _CRITIQUE),
        "thinking": ("single", {"judged_thinking": "kept", "thinking_markers": {"<t>": "</t>"}}),
        "sampled": ("prompts", {"responses_per_prompt": 2, "thinking_mode": True}),
        "cached_calm": ("single", {"judge_cache": "cache.sqlite", "samples_per_item": 2}),
        "limited": (
            "single",
            {"judge_max_tokens": 0, "judge_extra_body": {"top_p": 0.5}, "judge_temperature": 1.5},
        ),
    },
    "aspect": {
        "plain": ("single", {}),
        "panel": ("single", {"aspects": _PANEL, "strictness": 2, "judge_critique_rounds": 2}),
        "share": (
            "single",
            {"aspects": "coherence", "strictness": 5, "scoring": "share", "seed": 3},
        ),
        "share_panel": (
            "three",
            {"aspects": _PANEL[:2], "strictness": 3, "scoring": "share", **_CRITIQUE},
        ),
        "json_calm": ("single", {**_JSON, "aspects": "coherence,harmfulness", **_CRITIQUE}),
        "json_formless_calm": ("single", {**_JSON, "aspects": _PANEL}),
        "published": ("single", {"aspects": "coherence", "judge_prompt_layout": "published"}),
        "shared": (
            "single",
            {"aspects": "coherence,correctness", **_SHARED, **_COLD, "strictness": 3},
        ),
        "rows": ("aspects", {"strictness": 3}),
        "talks": ("talks", {**_SHORTENED, "aspects": "correctness"}),
        "pictures": ("pictures", {"aspects": "correctness", "judge_image_max_side": 0}),
    },
    "checklist": {
        "plain": ("criteria", {}),
        "each": ("criteria", {"criteria_per_call": 1, "strictness": 3, "formula": "rar"}),
        "cannot": (
            "criteria",
            {"criteria_per_call": 2, "cannot_assess": "partial", "formula": "weighted_mean"},
        ),
        "worst": ("criteria", {"cannot_assess": "worst", "formula": "min", "strictness": 2}),
        "zero": ("criteria", {"cannot_assess": "zero", "formula": "all", "criteria_per_call": 3}),
        "json_calm": ("criteria", {**_JSON, "cannot_assess": "leave_out"}),
        "json_formless_calm": ("criteria", {**_JSON, "criteria_per_call": 2}),
        "given": (
            "three",
            {
                "criteria": ["Is short.", {"text": "Cites.", "points": -2}],
                "formula": "weighted_mean",
            },
        ),
        "system": ("criteria", {"judge_system_prompt": "Be strict.", **_COLD}),
    },
    "peer": {
        "plain": ("single", {}),
        "critique": ("single", {"judge_critique_rounds": 2}),
        "shared": ("single", {**_CRITIQUE, **_SHARED, "rubric": "Correctness & Accuracy"}),
        "json_calm": ("single", {**_JSON, "judge_system_prompt": "Be strict."}),
        "json_critique": ("single", {**_JSON, **_CRITIQUE}),
        "json_formless_calm": ("single", {**_JSON, **_CRITIQUE}),
        "talks": ("talks", {**_SHORTENED, **_CRITIQUE}),
        "three": ("three", _COLD),
    },
    "arena_hard": {
        "plain": ("games", {}),
        "v01": (
            "games",
            {"judge_protocol": "arena_hard_v0.1", **_SHARED, "judge_critique_rounds": 2},
        ),
        "critique": ("games", {**_CRITIQUE, "judge_reask": 2, **_COLD}),
        "json_calm": ("games", {**_JSON, "judge_reask": 0}),
        "json_formless_calm": (
            "games",
            {**_JSON, "judge_protocol": "arena_hard_v0.1", **_CRITIQUE},
        ),
        "system": (
            "games",
            {"judge_system_prompt": "Answer [[A>B]], [[A=B]] or [[B>A]].", "seed": 5},
        ),
        "together": ("several", {"seed": 2}),
    },
    "choice": {
        "plain": ("several", {}),
        "json_calm": ("several", {**_JSON, **_CRITIQUE, "seed": 5}),
        "json_formless_calm": ("several", {**_JSON, "seed": 1}),
        "critique": ("several", {"judge_critique_rounds": 2}),
        "cold": ("several", {**_COLD, "seed": 6}),
        "grouped": ("grouped", {"group_by": "question_id"}),
    },
    "listwise": {
        "plain": ("several", {}),
        "orders": ("several", {"listwise_orders": 2, "rubric": "Is it right?", "judge_reask": 2}),
        "split": ("several", {"judge_max_input_tokens": 900}),
        "json_calm": ("several", _JSON),
        "json_formless_calm": ("several", {**_JSON, "listwise_orders": 2}),
        "grouped": ("grouped", {"group_by": "question_id", "listwise_orders": 2, "judge_reask": 0}),
    },
    "tournament": {
        "plain": ("several", {}),
        "balanced": ("several", {"schedule": "balanced", "game_orders": "balanced", "seed": 9}),
        "choice": ("several", {"tournament_game": "choice", "schedule": "circular"}),
        "v01": (
            "several",
            {"judge_protocol": "arena_hard_v0.1", "schedule": "swiss", "judge_reask": 2},
        ),
        "json_calm": ("several", {**_JSON, "schedule": "swiss", "schedule_rounds": 2}),
        "once": (
            "grouped",
            {"group_by": "question_id", "schedule": "all", "game_orders": "balanced"},
        ),
    },
    "reward_model": {
        "classify": ("single", {}),
        "label": ("single", {"reward_label": -1, "reward_activation": True, "reward_scale": "raw"}),
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
        "sglang": ("single", {"reward_protocol": "sglang_classify", "reward_tokenizer": "none"}),
        "openrlhf_batched_calm": (
            "three",
            {"reward_protocol": "openrlhf", "reward_tokenizer": "none", "reward_batch": 4},
        ),
        "talks": ("talks", {}),
    },
    "rule": {
        "exact": ("single", {"rule": "exact"}),
        "normalised": ("three", {"rule": "normalised"}),
        "contains": ("single", {"rule": "contains", "rule_mismatch": "cannot_say"}),
        "number": ("single", {"rule": "number", "rule_expected": "42", "rule_tolerance": 0.5}),
        "length": ("single", {"rule": "length", "rule_soft_limit": 3, "rule_hard_limit": 9}),
        "characters": (
            "three",
            {"rule": "length", "rule_length_unit": "characters", "rule_hard_limit": 40},
        ),
        "repetition": ("single", {"rule": "repetition"}),
        "multiple_choice": ("single", {"rule": "multiple_choice", "rule_expected": "A"}),
        "thinking_format": ("single", {"rule": "thinking_format"}),
        "ends_with_answer": ("traces", {"rule": "ends_with_answer"}),
        "tool_errors": ("traces", {"rule": "tool_errors"}),
        "tool_called": ("traces", {"rule": "tool_called", "rule_expected": "book_*,find_train"}),
        "tool_order": ("traces", {"rule": "tool_order", "rule_expected": "find_train,book_seat"}),
        "forked_regex": ("single", {"rule": "regex", "rule_expected": "(good|bad) \\w+"}),
        "forked_expression": ("single", {"rule": "expression", "rule_expected": "6*7"}),
        "forked_tool_not_called": (
            "traces",
            {"rule": "tool_not_called", "rule_expected": ["delete_*"]},
        ),
    },
}
