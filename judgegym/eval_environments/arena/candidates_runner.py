"""Evaluate one row of Arena-Hard with several candidates: all answer at once, then they play."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.engine.records import Sample, SampleRun
from judgegym.engine.runs.atomic import write_atomic
from judgegym.engine.terminal import Table
from judgegym.eval_environments.arena import report
from judgegym.eval_environments.arena.games import CandidateAnswer, GamesOfRow
from judgegym.eval_environments.arena.rows import ArenaHardTask
from judgegym.eval_environments.models.candidate import Candidate, CandidateReply
from judgegym.eval_environments.models.runner import CandidatesRunner, no_answers
from judgegym.llm.ledger import component

if TYPE_CHECKING:
    from judgegym.eval_environments.arena.candidates_environment import ArenaCandidatesEnv


class ArenaCandidatesRunner(CandidatesRunner[ArenaHardTask, GamesOfRow]):
    """Evaluates the rows of one evaluation."""

    def __init__(self, env: ArenaCandidatesEnv) -> None:
        """Compare the environment's candidates."""
        super().__init__(env)
        self._arena = env

    @property
    def candidates(self) -> Sequence[Candidate]:
        """Return the candidates."""
        return self._arena.candidates

    def prepare(self, tasks: Sequence[ArenaHardTask]) -> None:
        """Open the candidates, and read the answers that are in files and run directories."""
        super().prepare(tasks)
        self.asks_policy = any(candidate.asks_endpoint for candidate in self.candidates)

    @property
    def rows_in_flight(self) -> int:
        """Return how many rows to run at once: enough to reach the limits of all endpoints."""
        asked = (model.max_concurrency for model in self._arena.models if model.base_url is not None)
        return self._arena.config.judge_max_concurrency + max(asked, default=0)

    def plan(self, tasks: Sequence[ArenaHardTask]) -> str | None:
        """Return whose answers are of a run, and the number of calls."""
        rows, asked = len(tasks), sum(candidate.asks_endpoint for candidate in self.candidates)
        games = rows * self._arena.match.games_of_row(len(self.candidates))
        counts = f"{rows} rows, {len(self.candidates)} candidates: {rows * asked} answers to ask for, {games} games"
        return "\n".join([*self.notices, counts])

    async def finish(self, task: ArenaHardTask) -> Sample[GamesOfRow]:
        """Ask all candidates at once, and let those that have answered play."""
        env, started = self._arena, time.monotonic()
        (conversation,) = env.conversations(task)

        async def ask(candidate: Candidate) -> CandidateReply:
            with component(f"candidate_{candidate.name}"):
                return await candidate.reply(task.uid, conversation)

        replies = await asyncio.gather(*map(ask, self.candidates))
        both = zip(self.candidates, replies, strict=True)
        answers = tuple(CandidateAnswer.of(candidate.name, reply) for candidate, reply in both)
        policy_calls = tuple(reply.run for reply in replies if reply.run is not None)
        sample = Sample[GamesOfRow](
            task.uid,
            task.category,
            task.question,
            run=SampleRun(time.monotonic() - started, policy_calls),
            task_digest=self.digest(task),
        )
        if all(answer.answer is None for answer in answers):
            return replace(sample, policy_error=no_answers((answer.candidate, answer.error) for answer in answers))
        judgment = await env.judge_answers(task, answers)
        judge_calls = {call.name: call.run for call in judgment.calls}
        run = SampleRun(time.monotonic() - started, policy_calls, judge_calls or None)
        return replace(sample, run=run, judgment=judgment, score=judgment.score)

    def is_complete(self, sample: Sample[GamesOfRow]) -> bool:
        """Return whether every game has a result, and every candidate that is asked has answered."""
        if not sample.finished or sample.judgment is None or sample.judgment.detail is None:
            return False
        row = sample.judgment.detail
        asked = {candidate.name for candidate in self.candidates if candidate.asks_endpoint}
        missing = any(answer.answer is None for answer in row.answers if answer.candidate in asked)
        return not missing and len(row.decided) == len(row.games)

    def write_report(self, path: Path, rows: Sequence[tuple[ArenaHardTask, Sample[GamesOfRow]]]) -> Sequence[Table]:
        """Write `ratings.csv` and `win_rates.csv`, and return the tables to show."""
        if not rows:
            return ()
        standings = self._arena.standings
        write_atomic(path / "ratings.csv", report.ratings_csv(standings))
        write_atomic(path / "win_rates.csv", report.win_rates_csv(standings))
        return [report.ratings_table(standings), report.win_rates_table(standings)]
