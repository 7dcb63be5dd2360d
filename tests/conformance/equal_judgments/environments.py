"""Settings of `judgegym evaluate`: the environment, the data sets by their flags with the shapes of rows, the flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.conformance.equal_judgments.alone import Flags

URL = "{url}"
"""Stands in a flag for the base URL of the setting."""


class Evaluated(NamedTuple):
    """A setting: data sets (flag → shape of rows) and further flags."""

    data: Mapping[str, str]
    flags: Flags


_CANDIDATES = [
    {"name": name, "model_name": name, "base_url": URL} for name in ("one", "two", "three")
]
_ARENA = {"eval_prompt_dataset": "queries", "eval_baseline_dataset": "baselines"}
_PROMPTS = {"eval_dataset": "asked"}
_RUBRIC = {"eval_dataset": "instructions"}
_ASPECTS = {"eval_dataset": "questions"}
_CHECKLIST = {"eval_dataset": "health"}
_BENCH = {"question_dataset": "two_turns_writing"}
_REFERRED = {"question_dataset": "two_turns", "reference_dataset": "two_turns_answered"}
_COMPARED = {**_REFERRED, "baseline_dataset": "two_turns_answered"}
_PAIRS = {"eval_dataset": "preferences"}
_QUERIES = {"dataset": "queries"}
_JSON: Flags = {"judge_output": "json_schema"}
_CRITIQUE: Flags = {"judge_critique_rounds": 1}
_JURY: Flags = {"judges": {"a": {"judge_model_name": "a"}, "b": {"judge_model_name": "b"}, "c": {}}}
_CASCADE: Flags = {
    "cascade": {"a": {"judge": "rubric"}, "b": {"judge": "peer"}},
    "cascade_threshold": 0.6,
}

EVALUATED: Mapping[str, Mapping[str, Evaluated]] = {
    "prompts": {
        "rubric": Evaluated(
            _PROMPTS, {"judge": "rubric", "samples_per_item": 2, "judge_critique_rounds": 2}
        ),
        "aspect": Evaluated(
            _PROMPTS, {"judge": "aspect", "aspects": "coherence,harmfulness", **_CRITIQUE}
        ),
        "peer": Evaluated(_PROMPTS, {"judge": "peer", "judge_critique_rounds": 2}),
        "checklist": Evaluated(
            _PROMPTS, {"judge": "checklist", "criteria": ["Is short.", "Is right."]}
        ),
        "jury": Evaluated(
            _PROMPTS,
            {"judge": "jury", "judges": {"a": {"judge": "aspect"}, "b": {"judge": "peer"}}},
        ),
        "composite": Evaluated(
            _PROMPTS, {"judge": "composite", "reward": "rubric=1,peer=2", **_CRITIQUE}
        ),
        "cascade": Evaluated(_PROMPTS, {"judge": "cascade", **_CASCADE}),
        "reward_model": Evaluated(_PROMPTS, {"judge": "reward_model"}),
        "turns": Evaluated(_PROMPTS, {"judge": "rubric", "user_max_turns": 2, "judged": "turns"}),
    },
    "arena_hard": {
        "plain": Evaluated(_ARENA, _CRITIQUE),
        "v01": Evaluated(_ARENA, {"judge_protocol": "arena_hard_v0.1", "judge_reask": 2}),
        "json_calm": Evaluated(_ARENA, _JSON),
        "jury": Evaluated(_ARENA, {**_JURY, "jury_rule": "median"}),
        "candidates": Evaluated(_ARENA, {"candidates": _CANDIDATES, "schedule": "swiss"}),
        "candidates_baseline": Evaluated(
            _ARENA, {"candidates": _CANDIDATES[:2], "candidates_play": "baseline"}
        ),
    },
    "mt_bench": {
        "plain": Evaluated(_BENCH, {}),
        "referred": Evaluated(_REFERRED, {"judge_temperature": 0.5}),
        "compared": Evaluated(_COMPARED, {}),
        "json_calm": Evaluated(_REFERRED, _JSON),
        "json_formless_calm": Evaluated(_COMPARED, _JSON),
    },
    "pairwise_judgement": {
        "plain": Evaluated(_PAIRS, {"num_choices": "auto"}),
        "swapped": Evaluated(
            _PAIRS, {"swap_evaluate": True, "thinking_mode": True, "num_choices": "auto"}
        ),
        "rated": Evaluated({"eval_dataset": "ties"}, {"num_choices": "auto"}),
    },
    "self_critique": {
        "plain": Evaluated(_QUERIES, {"candidates": _CANDIDATES, "critique_rounds": 2}),
        "json_calm": Evaluated(
            _QUERIES, {"candidates": _CANDIDATES[:2], "judges": _CANDIDATES[1:], **_JSON}
        ),
    },
    "aspect_critique": {
        "plain": Evaluated(_ASPECTS, {"strictness": 3, **_CRITIQUE}),
        "share": Evaluated(_ASPECTS, {"scoring": "share", "aspects": "coherence"}),
        "jury": Evaluated(_ASPECTS, {**_JURY, "aspects": "correctness"}),
        "judging": Evaluated(_ASPECTS, {"role": "judge"}),
        "json_formless_calm": Evaluated(_ASPECTS, {**_JSON, **_CRITIQUE}),
    },
    "rubric_absolute": {
        "plain": Evaluated(_RUBRIC, {"samples_per_item": 2, **_CRITIQUE}),
        "responses": Evaluated(_RUBRIC, {"score_responses": True, "judge_critique_rounds": 2}),
        "soft": Evaluated(_RUBRIC, {"score_responses": True, "weighting": "logprobs"}),
        "jury": Evaluated(_RUBRIC, {**_JURY, "jury_rule": "majority", "score_responses": True}),
        "judging": Evaluated(_RUBRIC, {"role": "judge", "output_format": "result"}),
    },
    "rubric_checklist": {
        "plain": Evaluated(_CHECKLIST, {"criteria_per_call": 2}),
        "each": Evaluated(
            _CHECKLIST, {"criteria_per_call": 1, "strictness": 3, "cannot_assess": "partial"}
        ),
        "jury": Evaluated(_CHECKLIST, {**_JURY, "formula": "rar"}),
        "json_calm": Evaluated(_CHECKLIST, _JSON),
        "judging": Evaluated({"eval_dataset": "health_judged"}, {"role": "judge"}),
    },
}
"""By environment and name. The policy is asked where the rows have no answers."""
