"""The summary of `process`: headline, groups, rewards, outcomes, what went wrong, cost and time."""

from __future__ import annotations

from typing import Any

from judgegym.engine.terminal import offline_notice
from judgegym.engine.terminal.metric_lines import cost_lines, headline_line, latency_words, number, outcome_lines
from judgegym.engine.terminal.quantities import duration
from judgegym.engine.terminal.summary import Section, Summary, SummaryLine
from judgegym.environments.base import JudgedEnv
from judgegym.environments.training.process import ProcessResult

_REWARDS = {
    "reward_mean": "mean",
    "reward_std": "deviation",
    "reward_length_correlation": "correlation with length",
    "reward_position_correlation": "correlation with place",
}
_FAULTS = {
    "judge_error_rate": "judgments that failed",
    "refused_response_rate": "refused answers",
}


def process_summary(env: JudgedEnv[Any, Any, Any], processed: ProcessResult) -> Summary:
    """Return what the command prints."""
    metrics, stand_ins = processed.metrics, env.settings.stand_ins
    headline = env.training_headline or env.headline[0]
    values = metrics.values
    equal = f"{number(values.get('train/groups_without_signal_rate', 0.0), 'share')} with equal rewards"
    if (calls := values.get("train/group_judge_calls")) is not None:
        equal = f"{equal}, {calls:.1f} judge calls each"
    known = {words: values[f"train/{name}"] for name, words in _REWARDS.items() if f"train/{name}" in values}
    rewards = [f"{words} {round(value, 4) + 0.0:.4f}" for words, value in known.items()]
    faults = [
        SummaryLine(words, number(values[f"train/{name}"], "share"))
        for name, words in _FAULTS.items()
        if values.get(f"train/{name}")
    ]
    suspects = values.get("train/judge_injection_suspects", 0)
    if suspects:
        what = "tokens or markers of the judge's prompt, in texts under judgment"
        faults.append(SummaryLine("suspects", f"{suspects:,}", what))
    costs = [line for line in cost_lines(metrics, "train") if not (env.policy_is_judge and line.label == "judge")]
    dropped = [SummaryLine(f"dropped: {reason}", f"{count:,}", "groups") for reason, count in processed.dropped.items()]
    own_faults = outcome_lines(env.outcomes(), metrics, "train", faults=True)
    return Summary(
        title=f"{env.name}: {processed.groups} groups",
        headline=headline_line(
            metrics, f"train/{headline}", env.headline[1], of=f"{processed.groups:,} groups", counted=processed.groups
        ),
        sections=(
            Section("groups", [SummaryLine("", f"{processed.groups:,}", equal)]),
            Section("rewards", [SummaryLine("", "", ", ".join(rewards))] if rewards else []),
            Section("outcomes", outcome_lines(env.outcomes(), metrics, "train", faults=False)),
            Section("went wrong", [*dropped, *faults, *own_faults], is_alarm=True),
            Section("cost", costs),
            Section("time", [SummaryLine("", duration(processed.seconds), latency_words(metrics, "train"))]),
        ),
        notices=[offline_notice(stand_ins)] if stand_ins else [],
    )
