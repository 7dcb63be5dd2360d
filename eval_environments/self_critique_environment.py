"""Peer evaluation with self-critique: models answer, models score each other's answers, judges reconsider their scores.

Source: the specification's rationale-based self-critique loops (RL4F).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

if __name__ == "__main__":  # run as a script, from whichever folder: the packages stand beside this one
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while the libraries load just ends; the command takes it over

from environments.base import JudgedEnv
from environments.completions import Completion, Conversation, default_thinking_prompt, system_messages
from environments.data.rows import Split, load_rows
from environments.evaluate.report import Table
from environments.metrics import MetricAggregator, slug
from environments.offline import STAND_IN_POLICY
from environments.policy import Policy
from environments.records import Sample, SampleRun
from environments.runs.directory import write_atomic
from environments.settings import SAMPLES
from eval_environments.peer import report as peer_report
from eval_environments.peer.endpoints import ModelSettings
from eval_environments.peer.models import (
    Candidate,
    Clients,
    Column,
    PeerModel,
    calls_and_price,
    combined,
    peer,
    score_all,
)
from eval_environments.peer.report import PeerResults
from eval_environments.peer.settings import PeerTask, SelfCritiqueConfig, read_queries
from eval_environments.peer.table import PeerAnswer, PeerCell, PeerTable
from judges.core.judgment import CallRun, Judgment, Status
from judges.llm import wire
from judges.llm.client import ChatClient
from judges.llm.errors import SettingsError
from judges.llm.wire import Message
from judges.peers.judge import SCALE
from judges.peers.ranking import leniency_adjusted, scores_of

logger = logging.getLogger(__name__)

POLICY = "policy"
"""The candidate's name in training."""
_OFFLINE_MODELS = 3


class SelfCritiqueEnv(JudgedEnv[SelfCritiqueConfig, PeerTask, PeerTable]):
    """Candidates × judges in evaluate; in training the policy is a candidate and the judges are frozen."""

    name = "self_critique"
    config_type = SelfCritiqueConfig
    detail_type = PeerTable
    headline = ("mean_score", "score")
    offline_samples = {"dataset": str(SAMPLES / "peer_queries.jsonl")}

    @cached_property
    def clients(self) -> Clients:
        """One client for each endpoint and model."""
        return Clients(self.config, self.session, self.cache)

    @cached_property
    def candidate_settings(self) -> list[ModelSettings]:
        """The candidates; offline and unless some are named, three stand-ins of different style."""
        openai = self.settings.openai
        if self.config.candidates or "policy" not in self.settings.stand_ins:
            return self.config.candidates
        names = [f"{STAND_IN_POLICY}-{number}" for number in range(1, _OFFLINE_MODELS + 1)]
        return [ModelSettings(name=name, base_url=openai.base_url) for name in names]

    @cached_property
    def judge_settings(self) -> list[ModelSettings]:
        """The judges of evaluate: those that are named, or the candidates with an endpoint."""
        return self.config.judges or [each for each in self.candidate_settings if each.base_url is not None]

    @cached_property
    def candidates(self) -> list[Candidate]:
        """The models that answer in evaluate; during training, the policy.

        Raises:
            SettingsError: there is none, or an API key is missing.
        """
        if self.in_training:
            return [Candidate(POLICY, self.policy, self.config)]
        if not self.candidate_settings:
            raise SettingsError("--env.candidates: evaluate needs models to compare, as YAML or a JSON list")
        return [
            Candidate(
                each.name,
                None if each.base_url is None else Policy(self.clients.of(each), self.config),
                self.config,
                answers=each.answers,
            )
            for each in self.candidate_settings
        ]

    @cached_property
    def peers(self) -> list[PeerModel]:
        """The models that judge in evaluate; during training, the frozen ones.

        Raises:
            SettingsError: there is none, or an API key is missing.
        """
        if self.in_training:
            return self.frozen
        if not self.judge_settings:
            raise SettingsError("--env.judges: no model judges; name some, as YAML or a JSON list")
        return [self._peer(each) for each in self.judge_settings]

    @cached_property
    def frozen(self) -> list[PeerModel]:
        """The models that judge a policy in training.

        Raises:
            SettingsError: an API key is missing.
        """
        named = self.config.judges or [each for each in self.config.candidates if each.base_url is not None]
        if named:
            return [self._peer(each) for each in named]
        return [peer(self.config.judge_model_name, self.judge_client, self.config.critique_rounds)]

    def _peer(self, settings: ModelSettings) -> PeerModel:
        if settings.base_url is None:
            raise SettingsError(f"--env.judges: the model {settings.name!r} has a file of answers and cannot judge")
        return peer(settings.name, self.clients.of(settings), self.config.critique_rounds)

    def open_judges(self) -> None:
        """Nothing yet: which models judge depends on the command."""

    @property
    def judge_clients(self) -> Sequence[ChatClient]:
        """Those of all models that have been asked for."""
        of_models = self.clients.opened
        return of_models or ([self.judge_client] if "judge_client" in self.__dict__ else [])

    @property
    def rows_in_flight(self) -> int:
        """Queries under way at once: each is many calls."""
        return self.config.rows_at_once

    def tasks(self, split: Split) -> Sequence[PeerTask]:
        """Queries with their rubrics."""
        config = self.config
        source = (config.train_dataset or config.dataset) if split == "train" else config.dataset
        if source is None:
            raise SettingsError("--env.dataset: expected queries: a hub name or a file with a column `query`")
        if split == "train":
            _ = self.frozen  # what is wrong with the judges is said before the first call
        return read_queries(load_rows(source, split=config.split), config.rubric)

    @property
    def subject(self) -> str:
        """The candidates."""
        return ", ".join(each.name for each in self.candidate_settings)

    @property
    def judge_name(self) -> str:
        """The judges of evaluate."""
        return ", ".join(each.name for each in self.judge_settings)

    def is_complete(self, sample: Sample[PeerTable]) -> bool:
        """Whether no cell is missing."""
        return all(cell.score is not None for cell in _cells_of(sample))

    def answers_held(self, sample: Sample[PeerTable]) -> int:
        """The candidates' answers that are there, and the judges' scores of them."""
        return len(_answers_of(sample)) + sum(cell.score is not None for cell in _cells_of(sample))

    def answer_of(self, task: PeerTask) -> str | None:
        """None: a candidate's file of answers is the candidate's."""
        return None

    def eval_tasks(self) -> list[PeerTask]:
        """The queries of this evaluation, once the models that it needs are there.

        Raises:
            DataError: the queries, or a candidate's answers, cannot be loaded.
            SettingsError: a model is missing or lacks its API key.
        """
        chosen = self.selected_tasks()
        if self.config.model_answers is not None:
            raise SettingsError(
                '--env.model_answers: give answers as a candidate: {"name": "…", "answers": "file.jsonl"}'
            )
        for candidate in self.candidates:
            candidate.load(chosen)
        _ = self.peers
        if not self._pairs:
            raise SettingsError("--env.judges: nobody would judge anybody; add judges, candidates or env.include_self")
        return chosen

    @property
    def _pairs(self) -> int:
        """Cells of one query."""
        return sum(
            self.config.include_self or judge.name != candidate.name
            for judge in self.peers
            for candidate in self.candidates
        )

    def plan(self, tasks: Sequence[PeerTask]) -> str | None:
        """How many calls there will be, and what they cost."""
        config = self.config
        queries = [(task.question, task.rubric) for task in tasks]
        return f"{len(tasks)} queries: " + calls_and_price(
            self.candidate_settings,
            self.judge_settings,
            queries,
            rounds=config.critique_rounds,
            include_self=config.include_self,
        )

    def conversations(self, task: PeerTask) -> list[Conversation]:
        """The query as it is, after the system prompt if there is one."""
        system = system_messages(self.config, default_thinking_prompt())
        return [[*system, Message(role="user", content=task.question)]]

    async def finish(
        self,
        task: PeerTask,
        earlier: Sample[PeerTable] | None = None,
        *,
        answered: Callable[[Sample[PeerTable]], None] = lambda sample: None,
    ) -> Sample[PeerTable]:
        """All answers to a query at once, and each judged by all judges as soon as it is there."""
        started = time.monotonic()
        known = _answers_of(earlier)
        (conversation,) = self.conversations(task)
        asked: list[PeerAnswer] = list(known.values())

        async def column(candidate: Candidate) -> tuple[Column, CallRun | None]:
            answer, run = known.get(candidate.name), None
            if answer is None:
                answer, run = await candidate.answer(task.uid, conversation)
                asked.append(answer)
                so_far = PeerTable(tuple(asked), ())
                answered(_sample(task, Judgment(None, Status.JUDGE_FAILED, detail=so_far), started))
            scored = await score_all(
                self.peers,
                answer,
                query=task.question,
                rubric=task.rubric,
                include_self=self.config.include_self,
                known=_cells_of(earlier),
            )
            return scored, run

        columns = await asyncio.gather(*(column(candidate) for candidate in self.candidates))
        runs = tuple(run for _, run in columns if run is not None)
        return _sample(task, combined([scored for scored, _ in columns], self.peers), started, runs)

    async def judge(self, task: PeerTask, completions: Sequence[Completion]) -> Judgment[PeerTable]:
        """In training: all frozen judges at once; those that fail, once more."""
        (completion,) = completions
        if completion.thinking_fault is not None:
            return Judgment(None, Status.INVALID_COMPLETION, explanation=completion.thinking_fault)
        answer = PeerAnswer(POLICY, completion.answer)
        scored = await score_all(self.frozen, answer, query=task.question, rubric=task.rubric, again=True)
        return combined([scored], self.frozen)

    def reward(self, judgment: Judgment[PeerTable]) -> float:
        """The mean of the judges' scores, from 0 to 1."""
        assert judgment.score is not None  # only judgments with a score get here
        return SCALE.unit(judgment.score)

    def rewards(self, judgments: Sequence[Judgment[PeerTable]]) -> tuple[float | None, ...]:
        """Each rollout's score as the mean judge would give it, from 0 to 1.

        That is the mean over the judges unless one of them failed on some of the group: then its leniency is taken out.
        Adjusted scores may leave the scale, and are cut off there.
        """
        worth = super().rewards(judgments)
        judged = [number for number, judgment in enumerate(judgments) if judgment.status is Status.OK]
        names = [judge.name for judge in self.frozen]
        cells = [
            (0, names.index(cell.judge), place, float(cell.score))
            for place, number in enumerate(judged)
            for cell in _cells(judgments[number])
            if cell.score is not None
        ]
        if len(cells) == len(judged) * len(names):
            return worth
        adjusted = leniency_adjusted(scores_of(cells, queries=1, judges=len(names), candidates=len(judged)))
        if isinstance(adjusted, str):  # rollouts that no judge has in common cannot be compared
            return tuple(None if number in judged else each for number, each in enumerate(worth))
        by_number = {number: each for number, each in zip(judged, adjusted, strict=True) if each is not None}
        return tuple(
            min(1.0, max(0.0, SCALE.unit(by_number[number]))) if number in by_number else each
            for number, each in enumerate(worth)
        )

    def observe(self, metrics: MetricAggregator, task: PeerTask, sample: Sample[PeerTable]) -> None:
        """The mean over all scores of a query, overall and by category; in training also by judge."""
        score = sample.score or 0.0
        metrics.mean("mean_score", score)
        if task.category is not None:
            metrics.mean(f"mean_score_category_{slug(task.category)}", score)
        if metrics.prefix == "train" and sample.judgment is not None:
            for cell in _cells(sample.judgment):
                metrics.rate("missing_cell_rate", cell.score is None)
                if cell.score is not None:
                    metrics.mean(f"score_by_{slug(cell.judge)}", cell.score)

    def summarise(self, metrics: MetricAggregator, rows: Sequence[tuple[PeerTask, Sample[PeerTable]]]) -> None:
        """Scores, ranking, agreement, self-preference and what the critique changed."""
        peer_report.add_metrics(metrics, self._results(rows), expected_cells=self._pairs * len(rows))

    def write_report(self, path: Path, rows: Sequence[tuple[PeerTask, Sample[PeerTable]]]) -> Sequence[Table]:
        """`scores_round_<n>.csv`, `critique_history.jsonl` and `report.md`; the tables are shown as well."""
        if not rows:
            return ()
        results = self._results(rows)
        for number in range(results.rounds + 1):
            write_atomic(path / f"scores_round_{number}.csv", peer_report.score_csv(results, number))
        history = (wire.dumps(line) + b"\n" for line in peer_report.history_lines(results))
        write_atomic(path / "critique_history.jsonl", b"".join(history))
        write_atomic(path / "report.md", wire.scrub(peer_report.readable_report(results)).encode())
        return peer_report.tables_to_show(results)

    def _results(self, rows: Sequence[tuple[PeerTask, Sample[PeerTable]]]) -> PeerResults:
        tables = [
            (task.uid, sample.judgment.detail)
            for task, sample in rows
            if sample.judgment is not None and sample.judgment.detail is not None
        ]
        return PeerResults(
            judges=tuple(judge.name for judge in self.peers),
            candidates=tuple(candidate.name for candidate in self.candidates),
            uids=tuple(uid for uid, _ in tables),
            tables=tuple(table for _, table in tables),
            seed=self.config.seed,
        )


def _cells(judgment: Judgment[PeerTable]) -> Sequence[PeerCell]:
    return () if judgment.detail is None else judgment.detail.cells


def _cells_of(sample: Sample[PeerTable] | None) -> Sequence[PeerCell]:
    return _cells(sample.judgment) if sample is not None and sample.judgment is not None else ()


def _answers_of(earlier: Sample[PeerTable] | None) -> dict[str, PeerAnswer]:
    """The answers that an earlier run paid for, by candidate."""
    detail = earlier.judgment.detail if earlier is not None and earlier.judgment is not None else None
    answers = () if detail is None else detail.answers
    return {each.candidate: each for each in answers if each.answer is not None}


def _sample(
    task: PeerTask, judgment: Judgment[PeerTable], started: float, answers: tuple[CallRun, ...] = ()
) -> Sample[PeerTable]:
    return Sample(
        uid=task.uid,
        category=task.category,
        question=task.question,
        completions=(),
        judgment=judgment,
        score=judgment.score,
        run=SampleRun(time.monotonic() - started, answers, {call.name: call.run for call in judgment.calls} or None),
    )


if __name__ == "__main__":
    SelfCritiqueEnv.cli()
