"""Metrics that the documents name are always there, or are left out with a reason, whatever the run was like."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from environments.aspect_critique_environment import AspectCritiqueEnv
from environments.rubric_absolute_environment import RubricAbsoluteEnv
from eval_environments.arena_hard_environment import ArenaHardEnv
from eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from eval_environments.self_critique_environment import SelfCritiqueEnv
from tests.conformance.lab import Lab
from tests.scripted import Reply

_ROLE = (
    "calls", "requests", "cached_calls", "prompt_tokens", "cached_prompt_tokens", "completion_tokens", "cost_usd",
    "latency_mean_s", "latency_p95_s",
)  # fmt: skip
_SHARED = (
    "total_samples", "selected_rows", "judge_error_rate", "judge_failed_count", "unparsable_count",
    "policy_error_rate", "policy_failed_count", "judge_injection_suspects",
)  # fmt: skip
_ASPECTS = ("correctness", "conciseness")
_AGREEMENT = ("accuracy", "precision", "recall", "f1", "kappa")
_SCORES = (
    "exact_rate", "within_one_rate", "mae", "bias", "pearson", "spearman", "kendall_tau_b", "quadratic_kappa",
)  # fmt: skip
_RUBRIC = (
    "mean_reward", "mean_reward_ci_low", "mean_reward_ci_high", "strict_format_rate",
    *(f"score_freq_{level}" for level in range(1, 6)),
)  # fmt: skip
_CHANGES = ("changed_rate", "raised_rate", "lowered_rate", "mean_change")
_CRITIQUES = (*(f"critique_{name}" for name in _CHANGES), "critique_failed_round_rate")
_MODELS = ("offline-policy-1", "offline-policy-2", "offline-policy-3")

_CANDIDATES = (
    "overall_winrate", "overall_winrate_ci_low", "overall_winrate_ci_high", "games_played", "games_failed",
    "games_without_a_call", "game_error_rate", "answer_error_rate", "missing_answers", "wrong_answers",
    "first_position_advantage", "first_position_rating", "position_agreement_rate", "prompts_without_baseline",
    *(f"{name}_{model}" for name in ("games", "missing_answers", "wrong_answers", "answers_cost_usd")
      for model in _MODELS),
    *(f"rating_{model}{end}" for end in ("", "_ci_low", "_ci_high") for model in _MODELS),
    *(f"winrate_{model}_vs_baseline{end}" for end in ("", "_ci_low", "_ci_high") for model in _MODELS),
    "winrate_offline-policy-1_vs_offline-policy-2", "winrate_offline-policy-2_vs_offline-policy-3",
)  # fmt: skip

DOCUMENTED: dict[tuple[type, bool], tuple[str, ...]] = {
    (ArenaHardEnv, True): (
        "overall_winrate", "overall_winrate_ci_low", "overall_winrate_ci_high", "winrate_math", "winrate_coding",
        "win_count", "tie_count", "loss_count", "win_rate", "tie_rate", "loss_rate", "position_agreement_rate",
        "first_position_advantage", "reask_rate", "prompts_without_baseline", *_CRITIQUES,
    ),
    (PairwiseJudgementEnv, False): (
        "percent_correct", "percent_correct_ci_low", "percent_correct_math", "percent_correct_ties",
        "choice_format_compliance_rate", "ties_format_compliance_rate", "ties_error_rate", "wrong_answer_a_bias_rate",
        "avg_ties_rating", *(f"ties_rating_freq_{rating}" for rating in range(1, 11)), "ties_ambiguous_rating_rate",
        "ties_truncated_rate", "position_consistency_rate", *(f"gold_letter_freq_{letter}" for letter in "ABCD"),
        *(f"predicted_letter_freq_{letter}" for letter in "ABCD"), "rewardbench2/score", "rewardbench2/precise_if",
        "rewardbench2/ties",
    ),
    (AspectCritiqueEnv, True): (
        "mean_reward", "mean_reward_ci_low", "mean_reward_explaining", "votes_per_verdict", "redraw_rate", "veto_rate",
        *(f"{name}_{aspect}" for name in ("pass_rate", "score", "agreement") for aspect in _ASPECTS),
    ),
    (AspectCritiqueEnv, False): (
        "mean_reward", "votes_per_verdict", "redraw_rate", "n_used", "n_failed", *_AGREEMENT,
        *(f"{name}_{aspect}" for name in (*_AGREEMENT, "agreement") for aspect in _ASPECTS),
    ),
    (RubricAbsoluteEnv, True): (*_RUBRIC, "mean_score", "mean_score_ci_low", "spread_of_judgments", *_CRITIQUES),
    (RubricAbsoluteEnv, False): (*_RUBRIC, "n_used", "n_failed", *_SCORES, "confusion_gold_1_judge_5"),
    (SelfCritiqueEnv, True): (
        "mean_score", "krippendorff_alpha", "missing_cells", "missing_cell_rate", *_CRITIQUES,
        *(f"{name}_{model}" for name in ("mean_score", "adjusted_score") for model in _MODELS),
        *(f"adjusted_score_{model}_{end}" for end in ("ci_low", "ci_high", "before_critique") for model in _MODELS),
        "spearman_offline-policy-1_offline-policy-2",
        *(f"critique_{name}_{model}" for name in _CHANGES for model in _MODELS),
    ),
}  # fmt: skip

Fault = Callable[[Lab], None]


def nothing(lab: Lab) -> None:
    """Both endpoints answer as the stand-in does."""


def unreadable(lab: Lab) -> None:
    """The policy says the same short sentence to everything, in which no verdict can be read."""
    lab.policy.disturb(lambda uid: Reply(text="I would rather not say anything about this at all."))


def refusing(lab: Lab) -> None:
    """Both endpoints refuse what they are asked about most rows."""
    for side in (lab.policy, lab.judge):
        side.disturb(lambda uid: None if uid in ("row-0", "row-4") else Reply(status=400, body={"error": "no"}))


@pytest.mark.parametrize("fault", [nothing, unreadable, refusing], ids=lambda fault: fault.__name__)
def test_documented_metrics_are_there_or_left_out_with_a_reason(lab: Lab, fault: Fault) -> None:
    documented = DOCUMENTED.get((lab.subject.env_type, lab.subject.has_judge))
    if lab.subject.title == "arena_hard-candidates":
        documented = _CANDIDATES
    if documented is None:
        pytest.skip("an example, without a table of metrics")
    fault(lab)
    lab.evaluate()
    report = lab.files().report
    found = report["results"]["all"]
    left_out = report["config_general"]["left_out"]
    roles = ["policy", *(["judge"] if lab.subject.has_judge else [])]
    if not lab.subject.compares:  # whose rows have several policies
        documented = (*documented, "short_response_rate", "truncated_response_rate", "refused_response_rate")
        documented = (*documented, "empty_response_rate")
    names = {*documented, *_SHARED, *(f"{role}_{name}" for role in roles for name in _ROLE)}
    assert {name for name in names if f"eval/{name}" not in {**found, **left_out}} == set()
    assert not found.keys() & left_out.keys(), "a metric is there or left out"
    assert all(left_out.values()), "each with its reason"
