"""Peer evaluation with self-critique: models answer, models score each other's answers, judges reconsider their scores.

Source: the specification's rationale-based self-critique loops (RL4F).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":  # run as a script, from whichever folder: the packages stand beside this one
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while the libraries load just ends; the command takes it over

from environments.base import JudgedEnv
from environments.completions import Completion, Conversation
from environments.data.rows import Split, load_rows
from environments.metrics import MetricAggregator, slug
from environments.records import Sample
from environments.settings import SAMPLES
from eval_environments.peer import report
from eval_environments.peer.models import POLICY, PeerModels
from eval_environments.peer.row import PeerRowRunner, results_of
from eval_environments.peer.scoring import combined, score_all
from eval_environments.peer.settings import PeerTask, SelfCritiqueConfig, read_queries
from eval_environments.peer.table import PeerAnswer, PeerCell, PeerTable, cells_of
from judges.core.judgment import Judgment
from judges.llm.errors import SettingsError
from judges.llm.wire import Message
from judges.peers.judge import SCALE
from judges.peers.ranking import leniency_adjusted, scores_of


class SelfCritiqueEnv(JudgedEnv[SelfCritiqueConfig, PeerTask, PeerTable]):
    """Candidates × judges in evaluate; in training the policy is a candidate and the judges are frozen."""

    name = "self_critique"
    headline = ("mean_score", "score")
    offline_samples = {"dataset": str(SAMPLES / "peer_queries.jsonl")}

    def open_judges(self) -> None:
        """None yet: which models judge depends on the command."""
        self.models = PeerModels(self.settings, self.clients, self.verb)

    def row_runner(self) -> PeerRowRunner:
        """A row is many answers and a table of scores."""
        return PeerRowRunner(self, self.models)

    def tasks(self, split: Split) -> Sequence[PeerTask]:
        """Queries with their rubrics."""
        config = self.config
        source = (config.train_dataset or config.dataset) if split == "train" else config.dataset
        if source is None:
            raise SettingsError("--env.dataset: expected queries: a hub name or a file with a column `query`")
        if split == "train":
            _ = self.models.frozen  # what is wrong with the judges is said before the first call
        return read_queries(load_rows(source, split=config.split), config.rubric)

    def conversations(self, task: PeerTask) -> list[Conversation]:
        """The query as it is, after the system prompt if there is one."""
        return [[*self.system_messages, Message(role="user", content=task.question)]]

    async def judge(self, task: PeerTask, completions: Sequence[Completion]) -> Judgment[PeerTable]:
        """In training: all frozen judges at once."""
        return await self._score(task, completions, ())

    async def judge_again(
        self, task: PeerTask, completions: Sequence[Completion], earlier: Judgment[PeerTable]
    ) -> Judgment[PeerTable]:
        """In training: once more those judges that gave no score."""
        cells = cells_of(earlier)
        if all(cell.score is not None for cell in cells):
            return earlier
        return await self._score(task, completions, cells)

    async def _score(
        self, task: PeerTask, completions: Sequence[Completion], known: Sequence[PeerCell]
    ) -> Judgment[PeerTable]:
        (completion,) = completions
        answer, frozen = PeerAnswer(POLICY, completion.answer), self.models.frozen
        scored = await score_all(frozen, answer, query=task.question, rubric=task.rubric, known=known)
        return combined([scored], frozen)

    def reward(self, judgment: Judgment[PeerTable]) -> float:
        """The mean of the judges' scores, from 0 to 1."""
        return SCALE.unit(super().reward(judgment))

    def rewards(self, judgments: Sequence[Judgment[PeerTable]]) -> Sequence[float | None]:
        """Each rollout's score as the mean judge would give it, from 0 to 1.

        That is the mean over the judges unless one of them failed on some of the group: then its leniency is taken out.
        Adjusted scores may leave the scale, and are cut off there.
        """
        means = super().rewards(judgments)
        names = [judge.name for judge in self.models.frozen]
        cells = [
            (0, names.index(cell.judge), place, float(cell.score))
            for place, judgment in enumerate(judgments)
            for cell in cells_of(judgment)
            if cell.score is not None
        ]
        if len(cells) == len(judgments) * len(names):
            return means
        adjusted = leniency_adjusted(scores_of(cells, queries=1, judges=len(names), candidates=len(judgments)))
        if isinstance(adjusted, str):  # rollouts that no judge has in common cannot be compared
            return [None] * len(judgments)
        return [
            mean if score is None else min(1.0, max(0.0, SCALE.unit(score)))
            for mean, score in zip(means, adjusted, strict=True)
        ]

    def record_metrics(self, metrics: MetricAggregator, task: PeerTask, sample: Sample[PeerTable]) -> None:
        """The mean over all scores of a query, overall and by category; in training also by judge."""
        score = sample.score or 0.0
        metrics.mean("mean_score", score)
        if task.category is not None:
            metrics.mean(f"mean_score_category_{slug(task.category)}", score)
        if metrics.prefix == "train":
            for cell in cells_of(sample.judgment):
                metrics.rate("missing_cell_rate", cell.score is None)
                if cell.score is not None:
                    metrics.mean(f"score_by_{slug(cell.judge)}", cell.score)

    def summarise(self, metrics: MetricAggregator, rows: Sequence[tuple[PeerTask, Sample[PeerTable]]]) -> None:
        """Scores, ranking, agreement, self-preference and what the critique changed."""
        results = results_of(self.models, rows, seed=self.config.seed)
        report.add_metrics(metrics, results, expected_cells=self.models.pairs * len(rows))


if __name__ == "__main__":
    SelfCritiqueEnv.cli()
