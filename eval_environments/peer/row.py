"""What a peer evaluation does with one query: all candidates answer, and each answer is judged by all judges."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from environments.base import JudgedEnv
from environments.evaluate.report import Table
from environments.evaluate.row import RowRunner
from environments.records import Sample, SampleRun, digest
from environments.runs.directory import write_atomic
from eval_environments.peer import report
from eval_environments.peer.models import Candidate, PeerModels
from eval_environments.peer.price import calls_and_price
from eval_environments.peer.report import PeerResults
from eval_environments.peer.scoring import Column, combined, score_all
from eval_environments.peer.settings import PeerTask, SelfCritiqueConfig
from eval_environments.peer.table import PeerAnswer, PeerTable, answers_of, cells_of
from judges.core.judgment import Judgment, Status
from judges.llm import wire
from judges.llm.errors import SettingsError


class PeerRowRunner(RowRunner[PeerTask, PeerTable]):
    """Finishes the queries of one evaluation."""

    def __init__(self, env: JudgedEnv[SelfCritiqueConfig, PeerTask, PeerTable], models: PeerModels) -> None:
        """Compare `models`."""
        super().__init__(env)
        self._config = env.config
        self._models = models
        self.asks_policy = env.verb == "serve"

    def prepare(self, tasks: Sequence[PeerTask]) -> None:
        """Open the models, and read the answers that are in files.

        Raises:
            DataError: a candidate's answers cannot be loaded.
            SettingsError: a model is missing or lacks its API key.
        """
        if self._config.model_answers is not None:
            raise SettingsError(
                '--env.model_answers: give answers as a candidate: {"name": "…", "answers": "file.jsonl"}'
            )
        for candidate in self._models.candidates:
            candidate.load(tasks)
        _ = self._models.judges
        if not self._models.pairs:
            raise SettingsError("--env.judges: nobody would judge anybody; add judges, candidates or env.include_self")

    @property
    def subject(self) -> str:
        """The candidates."""
        return ", ".join(candidate.name for candidate in self._models.candidates)

    @property
    def judge_name(self) -> str:
        """The judges."""
        return ", ".join(judge.name for judge in self._models.judges)

    @property
    def rows_in_flight(self) -> int:
        """Queries under way at once: each is many calls."""
        return self._config.rows_at_once

    def plan(self, tasks: Sequence[PeerTask]) -> str | None:
        """How many calls there will be, and what they cost."""
        models, config = self._models, self._config
        return f"{len(tasks)} queries: " + calls_and_price(
            models.candidate_settings,
            models.judge_settings,
            [(task.question, task.rubric) for task in tasks],
            rounds=config.critique_rounds,
            include_self=config.include_self,
        )

    async def finish(
        self, task: PeerTask, earlier: Sample[PeerTable] | None, answered: Callable[[Sample[PeerTable]], None]
    ) -> Sample[PeerTable]:
        """All answers to a query at once, and each judged by all judges as soon as it is there."""
        started, models = time.monotonic(), self._models
        task_digest, prompt_digest = self.digests(task)
        sample = Sample[PeerTable](
            task.uid, task.category, task.question, task_digest=task_digest, prompt_digest=prompt_digest
        )
        judgment = None if earlier is None else earlier.judgment
        known, known_cells = answers_of(judgment), cells_of(judgment)
        (conversation,) = self._env.conversations(task)
        answers: list[PeerAnswer] = list(known.values())
        calls = [] if earlier is None else list(earlier.run.policy_calls)  # what they cost stays in the count

        async def column(candidate: Candidate) -> Column:
            answer = known.get(candidate.name)
            if answer is None:
                answer, run = await candidate.answer(task.uid, conversation)
                answers.append(answer)
                if run is not None:
                    calls.append(run)
                so_far = Judgment(None, Status.JUDGE_FAILED, detail=PeerTable(tuple(answers), ()))
                answered(replace(sample, judgment=so_far, run=SampleRun(time.monotonic() - started, tuple(calls))))
            return await score_all(
                models.judges,
                answer,
                query=task.question,
                rubric=task.rubric,
                include_self=self._config.include_self,
                known=known_cells,
            )

        columns = await asyncio.gather(*(column(candidate) for candidate in models.candidates))
        found = combined(columns, models.judges)
        judge_calls = {call.name: call.run for call in found.calls} or None
        run = SampleRun(time.monotonic() - started, tuple(calls), judge_calls)
        return replace(sample, judgment=found, score=found.score, run=run)

    def digests(self, task: PeerTask) -> tuple[str, str]:
        """A query with its rubric and the answers that are in files; what the candidates are asked."""
        answers = {candidate.name: candidate.held_answer(task.uid) for candidate in self._models.candidates}
        return digest(task, answers), digest(self._env.conversations(task))

    def is_complete(self, sample: Sample[PeerTable]) -> bool:
        """Whether no cell is missing."""
        return all(cell.score is not None for cell in cells_of(sample.judgment))

    def answers_held(self, sample: Sample[PeerTable]) -> int:
        """The candidates' answers that are there, and the judges' scores of them."""
        scores = sum(cell.score is not None for cell in cells_of(sample.judgment))
        return len(answers_of(sample.judgment)) + scores

    def answers_alone(self, sample: Sample[PeerTable], *, are_usable: bool) -> Sample[PeerTable]:
        """The answers of candidates with an endpoint, if they are usable."""
        asked = {model.name for model in self._models.candidate_settings if model.base_url is not None}
        answers = tuple(answer for answer in answers_of(sample.judgment).values() if answer.candidate in asked)
        table = PeerTable(answers if are_usable else (), ())
        return replace(sample, judgment=Judgment(None, Status.JUDGE_FAILED, detail=table), score=None)

    def write_report(self, path: Path, rows: Sequence[tuple[PeerTask, Sample[PeerTable]]]) -> Sequence[Table]:
        """`scores_round_<n>.csv`, `critique_history.jsonl` and `report.md`; the tables are shown as well."""
        if not rows:
            return ()
        results = results_of(self._models, rows, seed=self._config.seed)
        for number in range(results.rounds + 1):
            write_atomic(path / f"scores_round_{number}.csv", report.score_csv(results, number))
        history = (wire.dumps(line) + b"\n" for line in report.history_lines(results))
        write_atomic(path / "critique_history.jsonl", b"".join(history))
        write_atomic(path / "report.md", wire.scrub(report.readable_report(results)).encode())
        return report.tables_to_show(results)


def results_of(models: PeerModels, rows: Sequence[tuple[PeerTask, Sample[PeerTable]]], *, seed: int) -> PeerResults:
    """All that was found of these queries."""
    tables = [
        (task.uid, sample.judgment.detail)
        for task, sample in rows
        if sample.judgment is not None and sample.judgment.detail is not None
    ]
    return PeerResults(
        judges=tuple(judge.name for judge in models.judges),
        candidates=tuple(candidate.name for candidate in models.candidates),
        uids=tuple(uid for uid, _ in tables),
        tables=tuple(table for _, table in tables),
        seed=seed,
    )
