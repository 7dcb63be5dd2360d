"""Arena-Hard: a policy's answer against a baseline's, judged in both orders.

Source: Li et al., From Live Data to High-Quality Benchmarks: The Arena-Hard Pipeline (LMSYS ORG,
    2024).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # run as a script from any folder: the packages are next to this one
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    # Until the command handles it, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


from judgegym.engine.completions import Completion
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.settings import EnvSettings
from judgegym.engine.terminal.summary import Outcome
from judgegym.environments.base import JudgedEnv
from judgegym.environments.spec import EnvSpec
from judgegym.eval_environments.arena.environment import ArenaEnv, ArenaHardConfig, ArenaHardTask
from judgegym.eval_environments.arena.standings import (
    compute_style_controlled_win_rate,
    compute_style_difference,
    measure_style,
)
from judgegym.judges.arena import OUTCOMES, ArenaDetail, row_result
from judgegym.judges.core.judgment import Judgment
from judgegym.statistics.agreement import side

TWO_LOST_GAMES = (0.0, 0.0)
"""Entries of an answer in the wrong format, which loses both games."""


class ArenaHardEnv(ArenaEnv[ArenaDetail]):
    """Compares a policy's answers with a baseline's, judged in both orders."""

    spec = replace(
        ArenaEnv.spec,
        training_headline="winrate",
        reward_range=(-1.0, 1.0),
        invalid_score=-1.0,
        metric_notes={
            "win_rate": "share of rows won in both orders; the win rate is overall_winrate",
            "tie_rate": "share of rows neither won nor lost in both orders",
            "loss_rate": "share of rows lost in both orders",
            "style_controlled_winrate": (
                "at equal style of both answers; Arena-Hard-Auto's is at the average difference of "
                "all its models, and another number"
            ),
        },
        outcomes=(
            Outcome(
                "rows, both orders", {"win_rate": "won", "tie_rate": "tied", "loss_rate": "lost"}
            ),
            Outcome.from_metric("both orders agree", "position_agreement_rate"),
            Outcome.from_metric("at equal style", "style_controlled_winrate", unit="number"),
            Outcome.from_metric(
                "without a baseline", "prompts_without_baseline", unit="count", is_fault=True
            ),
        ),
    )

    async def judge(
        self, task: ArenaHardTask, completions: Sequence[Completion]
    ) -> Judgment[ArenaDetail]:
        """Judge both games at once."""
        (completion,) = completions
        judgment = await self.answer_judge.judge(task.make_judge_task(completion.answer))
        score, detail = judgment.score, judgment.detail
        if score is None or detail is None or not judgment.members:
            return judgment
        won = (score + 1.0) / 2.0
        label = OUTCOMES[(side(won) + 1.0) / 2.0]
        return replace(judgment, label=label, detail=replace(detail, entries=(won, won)))

    def record_metrics(
        self, metrics: MetricAggregator, task: ArenaHardTask, sample: Sample[ArenaDetail]
    ) -> None:
        """Record win rates, overall and by category, outcomes, and the agreement of both orders."""
        detail, entries = sample.detail, list_entries(sample)
        won, weight = sum(entries), float(len(entries))
        # The specification's names: `winrate` in training, `overall_winrate` beside those of
        # categories in evaluation.
        metrics.ratio(
            "winrate" if metrics.prefix == "train" else "overall_winrate",
            won,
            weight,
            interval=True,
        )
        label = "loss" if detail is None else sample.label
        for outcome in ("win", "tie", "loss"):
            metrics.count(f"{outcome}_count", outcome == label)
            metrics.rate(f"{outcome}_rate", outcome == label)
        if detail is not None:
            record_positions(metrics, detail)
        if task.category is not None:
            category = metrics.names(task.category)
            metrics.ratio(f"winrate_{category}", won, weight)
        if task.cluster is not None and self.config.cluster_winrates:
            cluster = metrics.names(task.cluster)
            metrics.ratio(f"winrate_cluster_{cluster}", won, weight)

    def summarise(
        self, metrics: MetricAggregator, rows: Sequence[tuple[ArenaHardTask, Sample[ArenaDetail]]]
    ) -> None:
        """Record the number of prompts without a baseline, and the win rate at equal style."""
        metrics.number("prompts_without_baseline", self.prompts_without_baseline)
        if not self.config.style_control:
            return
        rate = compute_style_controlled_win_rate(
            (
                list_entries(sample),
                compute_style_difference(
                    measure_style(sample.completions[0].answer), measure_style(task.baseline)
                ),
            )
            for task, sample in rows
        )
        if rate is None:
            metrics.leave_out("style_controlled_winrate", "all games were won, or all lost")
        else:
            metrics.number("style_controlled_winrate", rate)

    @classmethod
    def spec_for(cls, config: ArenaHardConfig) -> EnvSpec:
        """Declare the win rates of the categories, and of the clusters if requested."""
        clusters = [
            ("no row of this cluster has a score", "winrate_cluster_{cluster}")
        ] * config.cluster_winrates
        documented = (
            ("no row of this category has a score", "winrate_{category}"),
            *clusters,
            (
                "no answer was judged in both orders",
                *("position_agreement_rate", "first_position_advantage", "reask_rate"),
            ),
        )
        return replace(cls.spec, documented=documented)

    @classmethod
    def variant(
        cls, settings: EnvSettings[ArenaHardConfig]
    ) -> type[JudgedEnv[ArenaHardConfig, Any, Any]]:
        """Return the environment of several candidates, if there are candidates."""
        if settings.env.candidates_play is None:
            return cls
        from judgegym.eval_environments.arena.candidates_environment import (
            ArenaCandidatesEnv,  # imported here: few evaluations need it
        )

        return ArenaCandidatesEnv

    def orders(self, judgment: Judgment[ArenaDetail]) -> Mapping[str, float]:
        """Return the points of the policy's answer in each game that has a verdict."""
        if judgment.detail is None:
            return {}
        games = judgment.detail.games
        return {game.order: game.points for game in games if game.points is not None}


def list_entries(sample: Sample[ArenaDetail]) -> Sequence[float]:
    """Return the entries of a finished sample, from 0 to 1."""
    if sample.detail is None:
        return TWO_LOST_GAMES
    return sample.detail.entries


def record_positions(metrics: MetricAggregator, detail: ArenaDetail) -> None:
    """Record whether both orders agree, and the first position's advantage (0: no bias)."""
    first, second = detail.games
    # A detail with entries has both verdicts.
    assert first.label is not None and second.label is not None
    as_a, as_b = row_result(first.label, second.label, strong_weight=1).entries
    metrics.rate("position_agreement_rate", as_a == as_b)
    metrics.mean("first_position_advantage", as_a - as_b)
    metrics.rate("reask_rate", bool(first.earlier_texts or second.earlier_texts))


if __name__ == "__main__":
    ArenaHardEnv.cli()
