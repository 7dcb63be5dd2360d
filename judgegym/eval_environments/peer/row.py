"""Evaluation of one query: all candidates answer it, and all judges score each answer.

The scores of an answer are a column of the query's table; the table is one judgment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from judgegym.engine.completions import Completion
from judgegym.engine.records import Sample
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.terminal import Table
from judgegym.environments.base import JudgedEnv
from judgegym.eval_environments.models import Candidate, CandidatesRunner
from judgegym.eval_environments.peer import report
from judgegym.eval_environments.peer.models import PeerModel, PeerModels, estimate_calls
from judgegym.eval_environments.peer.results import (
    PeerAnswer,
    PeerCell,
    PeerResults,
    PeerTable,
    list_cells,
    make_cell,
)
from judgegym.eval_environments.peer.settings import PeerTask, SelfCritiqueConfig
from judgegym.judges.core.judgment import JudgeCall, Judgment, Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.peers import peer_prompt
from judgegym.llm import wire
from judgegym.llm.at_once import gather_results
from judgegym.llm.errors import SettingsError
from judgegym.llm.ledger import component


@dataclass(frozen=True, slots=True)
class Column:
    """An answer with its scores.

    Attributes:
        answer: the answer.
        cells: the judges' cells, in the order of the judges.
        calls: the judges' calls.
        suspects: the number of suspects that each judge is shown.
    """

    answer: PeerAnswer
    cells: tuple[PeerCell, ...]
    calls: tuple[JudgeCall[object], ...] = ()
    suspects: int = 0


async def score_answer(
    peers: Sequence[PeerModel],
    answer: PeerAnswer,
    *,
    query: str,
    rubric: str,
    include_self: bool = True,
    earlier_cells: Sequence[PeerCell] = (),
) -> Column:
    """Score one answer by all judges at once; without an answer, return failed cells without calls.

    Args:
        peers: the judges.
        answer: the answer to score.
        query: the query that it answers.
        rubric: the rubric to score it by.
        include_self: whether the candidate is among its judges.
        earlier_cells: scores of an earlier judgment, which are kept.
    """
    judges = list(peers)
    if not include_self:
        judges = [judge for judge in peers if judge.name != answer.candidate]
    if answer.answer is None:
        empty = (
            PeerCell(judge.name, answer.candidate, "policy_failed", error=answer.error)
            for judge in judges
        )
        return Column(answer, tuple(empty))
    task = JudgeTask(query, (answer.answer,), rubric=rubric)
    earlier = [cell for cell in earlier_cells if cell.candidate == answer.candidate]
    scores = {cell.judge: cell for cell in earlier if cell.score is not None}

    async def score(peer: PeerModel) -> tuple[PeerCell, tuple[JudgeCall[object], ...]]:
        if peer.name in scores:
            return scores[peer.name], ()
        with component(f"judge_{peer.name}"):
            judgment = await peer.judge.judge(task)
        return make_cell(peer.name, answer.candidate, judgment), judgment.calls

    results = await gather_results(score(judge) for judge in judges)
    calls = []
    for judge, (_, judge_calls) in zip(judges, results, strict=True):
        prefix = f"{judge.name}_of_{answer.candidate}"
        calls += [dataclasses.replace(call, name=f"{prefix}_{call.name}") for call in judge_calls]
    suspects = peer_prompt(query, answer.answer, rubric).suspects
    return Column(answer, tuple(cell for cell, _ in results), tuple(calls), suspects)


def combine_columns(columns: Sequence[Column], peers: Sequence[PeerModel]) -> Judgment[PeerTable]:
    """Combine one query into one judgment: the mean of its scores, 0 to 100.

    It fails only if no cell has a score.

    Args:
        columns: the candidates' answers with their cells.
        peers: the judges; cells are in their order, the first judge's first.
    """
    all_cells = list(chain.from_iterable(column.cells for column in columns))
    cells: tuple[PeerCell, ...] = ()
    for judge in peers:
        cells += tuple(cell for cell in all_cells if cell.judge == judge.name)
    calls = tuple(chain.from_iterable(column.calls for column in columns))
    table = PeerTable(tuple(column.answer for column in columns), cells)
    suspects = sum(column.suspects for column in columns)
    scores = [cell.score for cell in cells if cell.score is not None]
    if scores:
        reasonings = "\n\n".join(
            f"{cell.judge}: {cell.score}. {cell.reasoning}"
            for cell in cells
            if cell.score is not None
        )
        mean = sum(scores) / len(scores)
        return Judgment(
            mean, Status.OK, explanation=reasonings, calls=calls, detail=table, suspects=suspects
        )
    reasons = "; ".join(dict.fromkeys(cell.error for cell in cells if cell.error))
    unparsable = any(cell.status == Status.UNPARSABLE.value for cell in cells)
    status = Status.UNPARSABLE if unparsable else Status.JUDGE_FAILED
    return Judgment(None, status, explanation=reasons, calls=calls, detail=table, suspects=suspects)


class PeerRowRunner(CandidatesRunner[PeerTask, PeerTable, Column]):
    """Runner of the queries of one evaluation."""

    def __init__(
        self, env: JudgedEnv[SelfCritiqueConfig, PeerTask, PeerTable], models: PeerModels
    ) -> None:
        """Compare `models`."""
        super().__init__(env)
        self._config = env.config
        self._models = models
        self.asks_policy = env.verb == "serve"

    def prepare(self, tasks: Sequence[PeerTask]) -> None:
        """Open the models, and read the answers that are in files and run directories.

        Raises:
            DataError: a candidate's answers cannot be loaded, or answer other questions.
            SettingsError: a model is missing, or its API key is.
        """
        super().prepare(tasks)
        _ = self._models.judges
        if not self._models.cell_count:
            raise SettingsError(
                "--env.judges: no judge has a candidate to score; add judges, candidates or "
                "env.include_self"
            )

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The candidates; in training only the policy."""
        return self._models.candidates

    @property
    def judge_name(self) -> str:
        """The names of the judges."""
        return ", ".join(judge.name for judge in self._models.judges)

    @property
    def rows_in_flight(self) -> int:
        """Maximum number of queries in progress; each makes many calls."""
        return self._config.rows_at_once

    def plan(self, tasks: Sequence[PeerTask]) -> str | None:
        """Describe the planned run: reused runs, the number of calls and their cost."""
        models, config = self._models, self._config
        price = estimate_calls(
            models.candidate_settings,
            models.judge_settings,
            ((task.question, task.rubric) for task in tasks),
            rounds=config.critique_rounds,
            include_self=config.include_self,
        )
        count = len(tasks)
        return "\n".join([*self.notices, f"{count} queries: {price}"])

    async def read_reply(self, task: PeerTask, candidate: str, reply: Completion | str) -> Column:
        """Score a candidate's answer by all judges as soon as it arrives."""
        return await score_answer(
            self._models.judges,
            PeerAnswer.from_reply(candidate, reply),
            query=task.question,
            rubric=task.rubric,
            include_self=self._config.include_self,
        )

    def find_answer_error(self, answer: Column) -> str | None:
        """Return why a candidate has no answer that can be scored."""
        if answer.answer.answer is None:
            return answer.answer.error
        return None

    async def judge_answers(self, task: PeerTask, answers: Sequence[Column]) -> Judgment[PeerTable]:
        """Combine the scores of all answers."""
        return combine_columns(answers, self._models.judges)

    def is_complete(self, sample: Sample[PeerTable]) -> bool:
        """Return whether no cell is missing."""
        return sample.finished and all(
            cell.score is not None for cell in list_cells(sample.judgment)
        )

    def write_report(
        self, path: Path, rows: Sequence[tuple[PeerTask, Sample[PeerTable]]]
    ) -> Sequence[Table]:
        """Write the scores, the history and the report, and return the tables to show.

        The files are `scores_round_<n>.csv`, `critique_history.jsonl` and `report.md`.
        """
        if not rows:
            return ()
        results = collect_results(self._models, rows, seed=self._config.seed)
        for number in range(results.rounds + 1):
            write_atomic(
                path / f"scores_round_{number}.csv", report.make_score_csv(results, number)
            )
        write_atomic(
            path / "critique_history.jsonl",
            lambda: (
                wire.dumps(line) + b"\n" for line in report.iter_history_lines(read_tables(rows))
            ),
        )
        write_atomic(
            path / "report.md",
            lambda: _join_paragraphs(report.iter_report(results, lambda: read_tables(rows))),
        )
        return report.list_tables(results)


def collect_results(
    models: PeerModels, rows: Sequence[tuple[PeerTask, Sample[PeerTable]]], *, seed: int
) -> PeerResults:
    """Collect the scores of all queries."""
    return PeerResults.from_tables(
        (table for _, table in read_tables(rows)),
        judges=tuple(judge.name for judge in models.judges),
        candidates=tuple(candidate.name for candidate in models.candidates),
        seed=seed,
    )


def read_tables(
    rows: Sequence[tuple[PeerTask, Sample[PeerTable]]],
) -> Iterator[tuple[str, PeerTable]]:
    """Read the table of each query that has one, with the query's id."""
    for task, sample in rows:
        if sample.judgment is not None and sample.judgment.detail is not None:
            yield task.uid, sample.judgment.detail


def _join_paragraphs(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield the texts as bytes, with an empty line between paragraphs."""
    for number, text in enumerate(texts):
        yield (b"\n" if number else b"") + wire.scrub(text).encode() + b"\n"
