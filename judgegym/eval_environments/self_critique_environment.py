"""Peer evaluation with self-critique: models score each other's answers, then reconsider.

Source: the specification's rationale-based self-critique loops (RL4F).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

if __name__ == "__main__":  # run as a script from any folder: the packages are next to this one
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    # Until the command handles it, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from judgegym.data.rows import Split, load_rows
from judgegym.engine.completions import Completion, Conversation
from judgegym.engine.metrics import MetricAggregator, slug
from judgegym.engine.records import Sample
from judgegym.engine.settings import SAMPLES
from judgegym.engine.terminal.summary import Outcome
from judgegym.environments.base import JudgedEnv
from judgegym.environments.spec import EnvSpec
from judgegym.eval_environments.peer import report
from judgegym.eval_environments.peer.models import POLICY, PeerModels
from judgegym.eval_environments.peer.ranking import adjust_for_leniency
from judgegym.eval_environments.peer.results import PeerAnswer, PeerCell, PeerTable, list_cells
from judgegym.eval_environments.peer.row import (
    PeerRowRunner,
    collect_results,
    combine_columns,
    score_answer,
)
from judgegym.eval_environments.peer.settings import PeerTask, SelfCritiqueConfig, read_queries
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.peers import SCALE
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import Message


class SelfCritiqueEnv(JudgedEnv[SelfCritiqueConfig, PeerTask, PeerTable]):
    """Candidates × judges in evaluations; in training the policy and frozen judges."""

    spec = EnvSpec(
        name="self_critique",
        headline=("mean_score", "score"),
        offline_samples={"dataset": str(SAMPLES / "peer_queries.jsonl")},
    )

    def tasks(self, split: Split) -> Sequence[PeerTask]:
        """Load queries with their rubrics."""
        config = self.config
        source = (config.train_dataset or config.dataset) if split == "train" else config.dataset
        if source is None:
            raise SettingsError(
                "--env.dataset: expected queries: a hub name or a file with a column `query`"
            )
        if split == "train":
            # Report errors in the judges' settings before the first call.
            _ = self.models.frozen_judges
        return read_queries(load_rows(source, split=config.split), config.rubric)

    @cached_property
    def models(self) -> PeerModels:
        """The models, opened at first use, since the command decides which ones are needed."""
        return PeerModels(self.settings, self.clients, self.verb)

    def conversations(self, task: PeerTask) -> list[Conversation]:
        """Ask the query, after the system prompt."""
        return [[*self.system_messages, Message(role="user", content=task.question)]]

    async def judge(self, task: PeerTask, completions: Sequence[Completion]) -> Judgment[PeerTable]:
        """Score an answer in training, by all frozen judges at once."""
        return await self._score(task, completions, ())

    async def _score(
        self, task: PeerTask, completions: Sequence[Completion], earlier_cells: Sequence[PeerCell]
    ) -> Judgment[PeerTable]:
        (completion,) = completions
        answer = PeerAnswer(POLICY, completion.answer)
        frozen = self.models.frozen_judges
        column = await score_answer(
            frozen, answer, query=task.question, rubric=task.rubric, earlier_cells=earlier_cells
        )
        return combine_columns([column], frozen)

    def reward(self, judgment: Judgment[PeerTable]) -> float:
        """Return the mean of the judges' scores, from 0 to 1."""
        return SCALE.unit(super().reward(judgment))

    def record_metrics(
        self, metrics: MetricAggregator, task: PeerTask, sample: Sample[PeerTable]
    ) -> None:
        """Record the mean score of a query, overall and by category; in training also by judge."""
        score = sample.score or 0.0
        metrics.mean("mean_score", score)
        if task.category is not None:
            category = metrics.names(task.category)
            metrics.mean(f"mean_score_category_{category}", score)
        if metrics.prefix == "train":
            for cell in list_cells(sample.judgment):
                metrics.rate("missing_cell_rate", cell.score is None)
                if cell.score is not None:
                    judge = slug(cell.judge)
                    metrics.mean(f"score_by_{judge}", cell.score)

    def summarise(
        self, metrics: MetricAggregator, rows: Sequence[tuple[PeerTask, Sample[PeerTable]]]
    ) -> None:
        """Record scores, ranking, agreement, self-preference and the changes by critique."""
        results = collect_results(self.models, rows, seed=self.config.seed)
        report.add_metrics(metrics, results, expected_cells=self.models.cell_count * len(rows))

    def texts(self, task: PeerTask) -> Mapping[str, str]:
        """Return the rubric; the candidates' answers are in the judgment's detail."""
        return {"rubric": task.rubric}

    @classmethod
    def spec_for(cls, config: SelfCritiqueConfig) -> EnvSpec:
        """Show the judges' agreement, the changes by critique, and missing scores."""
        changes = {f"critique_{name}_rate": name for name in ("changed", "raised", "lowered")}
        outcomes = [
            Outcome.from_metric("agreement (α)", "krippendorff_alpha", unit="number"),
            Outcome("scores after critique", changes),
            Outcome.from_metric("missing scores", "missing_cells", unit="count", is_fault=True),
            Outcome.from_metric(
                "failed critique rounds", "critique_failed_round_rate", is_fault=True
            ),
        ]
        if not config.critique_rounds:
            del outcomes[1]
        return replace(cls.spec, outcomes=tuple(outcomes))

    def row_runner(self) -> PeerRowRunner:
        """Return the runner of a row: all candidates answer, and all judges score each answer."""
        return PeerRowRunner(self, self.models)

    async def judge_again(
        self, task: PeerTask, completions: Sequence[Completion], earlier: Judgment[PeerTable]
    ) -> Judgment[PeerTable]:
        """Call again the judges that gave no score."""
        cells = list_cells(earlier)
        if all(cell.score is not None for cell in cells):
            return earlier
        return await self._score(task, completions, cells)

    @property
    def depends_on_group(self) -> bool:
        """Whether there are several judges, some of which may fail on some rollouts of a group."""
        return len(self.models.frozen_judges) > 1

    def group_rewards(self, judgments: Sequence[Judgment[PeerTable]]) -> Sequence[float | None]:
        """Return the mean of the judges' scores of each rollout, from 0 to 1.

        If a judge failed on some rollouts of the group, the scores are adjusted for the judges'
        leniency, and clipped to the scale.
        """
        import numpy as np  # imported here: the help does not need it

        means = [self.reward(judgment) for judgment in judgments]
        names = [judge.name for judge in self.models.frozen_judges]
        scores = np.full((1, len(names), len(judgments)), np.nan)
        for index, judgment in enumerate(judgments):
            for cell in list_cells(judgment):
                if cell.score is not None:
                    scores[0, names.index(cell.judge), index] = cell.score
        if np.isfinite(scores).all():
            return means
        adjusted = adjust_for_leniency(scores)
        if isinstance(adjusted, str):  # rollouts without a common judge cannot be compared
            return [None] * len(judgments)
        return [
            mean if score is None else min(1.0, max(0.0, SCALE.unit(score)))
            for mean, score in zip(means, adjusted, strict=True)
        ]


if __name__ == "__main__":
    SelfCritiqueEnv.cli()
