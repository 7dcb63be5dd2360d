"""One run of `judgegym score`: its rows, its judge, the run directory and the output file.

Guarantees: all rows are read and checked before the first call. A response of the judge is in the
ledger before it is used. FILE is written as a whole, once each response has a score or a failure.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.data.answers import log_unused_columns
from judgegym.datasets.files.columns import RESPONSE, AddedColumns, check_columns
from judgegym.datasets.files.shards import Shard, first_rows
from judgegym.datasets.files.writer import StoredRows, scored_content
from judgegym.datasets.rows.task import JudgedResponse, ScoreTask
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.sample import ResponseJudge
from judgegym.datasets.score.clients import ScoreClients
from judgegym.datasets.score.gold import GoldColumn
from judgegym.datasets.score.input import SKIP_HINT, iter_added_columns, read_input
from judgegym.datasets.score.results import conclude, write_quarantine
from judgegym.datasets.score.saved import (
    SavedResponses,
    find_position,
    list_missing_tasks,
    make_row_end,
    make_samples,
    open_run,
    open_saved,
    read_response,
    split_response_uid,
)
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine.anchors import AnchorJudge, check_anchors, judge_anchors
from judgegym.engine.loop import NothingSucceeds, RunProgress, judge_rows
from judgegym.engine.runs.batches import use_batches
from judgegym.engine.runs.directory import FAILURES, SAMPLES, RunDirectory, make_row_uid
from judgegym.engine.runs.disk import remove_unfinished
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.runs.recorded_calls import CALLS, pack
from judgegym.engine.terminal import ProgressDisplay
from judgegym.environments.evaluate.evaluation import EvaluationResult
from judgegym.judges.core.tasks import TaskJudge, judge_responses, share_judgment
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.registry import find_scale
from judgegym.llm.errors import RunDirectoryError, SettingsError
from judgegym.reports.run_page.page import write_report_after

if TYPE_CHECKING:
    from judgegym.datasets.cluster.pool import ActorPool

logger = logging.getLogger(__name__)


class ScoreRun:
    """The rows of a data set, and their judge.

    Attributes:
        progress: counts the responses that have a score or a failure, including those of earlier
            runs.
        anchor_judge: judges the anchors; `None` without any.
    """

    def __init__(
        self, settings: ScoreSettings, data: str, out: Path, clients: ScoreClients
    ) -> None:
        """Read and check all rows.

        Args:
            settings: all settings.
            data: the data set.
            out: the file to write.
            clients: the judge, and the policy if responses are sampled.

        Raises:
            DataError: the data cannot be loaded, or a row cannot be judged.
            SettingsError: the judge's settings are wrong.
        """
        self.settings, self.out, self.clients = settings, out, clients
        self.scorer: TaskJudge = open_judge(settings, clients.judge)
        self.input = score_input = read_input(settings, data)
        sampled = settings.responses_per_prompt
        self.tasks = tasks = ScoreTasks(
            score_input.rows,
            settings,
            self.scorer.check,
            self._select_rows(),
            sampled=sampled,
            earlier=score_input.earlier,
        )
        if settings.on_bad_row == "fail" or len(tasks.bad) == len(score_input.rows):
            tasks.require_all(f"\n{SKIP_HINT}")
        self.gold = self._open_gold_column()
        if settings.shard is not None:
            tasks.note_questions(
                number for number in range(len(score_input.rows)) if number not in tasks.numbers
            )
        self.columns = AddedColumns(
            tasks.several, sampled=sampled is not None, verdicts=tasks.questions.columns
        )
        check_columns(score_input.output_rows, self.columns, out)
        self.anchor_judge: AnchorJudge | None = None
        if settings.anchors is not None:
            self.anchor_judge = AnchorJudge(
                *(settings.anchors, settings.judge, settings.judged_by, settings, self.scorer),
                lambda: sorted(clients.judge.served_models),
            )
            check_anchors(self.anchor_judge)
        self._actor_pool: ActorPool | None = None
        self.progress = RunProgress("mean score", lambda: self._waiting, None)
        log_unused_columns(data, tasks.reader.unused_columns)
        if tasks.bad:
            first = tasks.bad[min(tasks.bad)]
            logger.warning(
                "rows that cannot be judged, and have no score: %d; the first: %s",
                len(tasks.bad),
                first,
            )
        if tasks.bad_lines:
            logger.warning(
                "lines of %s that are no JSON objects, and are left out: %d",
                data,
                len(tasks.bad_lines),
            )
        columns_read = {
            **tasks.reader.columns,
            **({} if score_input.earlier is None else {"responses": RESPONSE}),
        }
        sources = ", ".join(f"{content} from {column}" for content, column in columns_read.items())
        total = "" if settings.limit is None else f" of {len(score_input.rows):,}"
        logger.info("%s%s rows; %s", f"{len(tasks.numbers):,}", total, sources)

    async def run(
        self, display: ProgressDisplay, actor_pool: ActorPool | None = None
    ) -> EvaluationResult:
        """Judge the responses that an earlier run has not judged, and write the file.

        Args:
            display: shows the progress.
            actor_pool: judges in other processes, in place of the client.

        Raises:
            RunDirectoryError: the run cannot be resumed, or another process is using it.
            NothingSucceeds: the first ten tasks failed.
            DiskFull: the disk refused for too long.
            BudgetSpent: the budget allows no further request. All answers are in the ledger, and no
                file is written.
        """
        self._actor_pool = actor_pool
        self.progress = RunProgress("mean score", lambda: self._waiting, display)
        started = time.monotonic()
        settings = self.settings
        score_input = self.input
        run = open_run(settings, self.out)
        with closing(run), run.log.log_end(), closing(open_saved(self.tasks, run)) as saved:
            self._read_earlier(run, saved)
            run.drop_results()
            remove_unfinished(self.out)  # this process holds the lock, so no other writes the file
            earlier = await self._judge_missing(run, saved)
            anchors = await judge_anchors(self.anchor_judge, run, keep_texts=settings.keep_calls)
            await saved.sort()
            packing = asyncio.create_task(
                self._pack(run, saved)
            )  # the ledger is compressed on another core meanwhile
            try:
                await self._write_output(run, saved)
                result = await conclude(
                    settings,
                    score_input,
                    self.tasks,
                    saved,
                    started,
                    earlier=earlier,
                    clients=self.clients,
                    anchors=anchors,
                )
            finally:
                await packing  # before the run directory is unlocked
            if settings.write_report:
                await write_report_after(run.path, run.disk)
            return result

    def _read_earlier(self, run: RunDirectory, saved: SavedResponses) -> None:
        """Record which responses an earlier run has judged, unless row or gold label has changed.

        Failures are judged again.

        Raises:
            RunDirectoryError: a file cannot be read, or `--limit` leaves out a judged row.
        """
        changed, limit, tasks = 0, self.settings.limit, self.tasks
        for line, _ in run.lines(FAILURES, read_response):
            saved.set_end(FAILURES, line.offset + len(line.data))
        for line, sample in run.lines(SAMPLES, read_response):
            place = find_position(sample, tasks)
            saved.set_end(SAMPLES, line.offset + len(line.data))
            gold: Mapping[str, str | float] = {}
            if place is not None and self.gold is not None:
                gold = self.gold.label_values(*tasks.response_index.row(place))
            if place is not None and gold == {label.name: label.gold for label in sample.gold}:
                saved.record_line(place, line, sample.status, is_complete=True)
                self.progress.add(sample)
                continue
            row, _ = split_response_uid(sample.uid)
            if limit is not None and row in range(len(tasks.numbers), len(tasks.reader.rows)):
                uid = make_row_uid(row)
                raise RunDirectoryError(
                    f"{line.path}: {uid} is judged, and --limit {limit} leaves it out; "
                    "--resume would lose it: expected no --limit, or as many rows as before"
                )
            changed += 1
        if changed:
            logger.warning(
                "responses whose rows are gone, or have changed and are judged again: %d",
                changed,
            )

    async def _judge_missing(self, run: RunDirectory, saved: SavedResponses) -> int:
        """Judge the missing responses; return the number of those that were judged before."""
        tasks = self.tasks
        policy = self.clients.policy
        is_first = len(saved.missing) == len(saved)
        judge = ResponseJudge(
            self._actor_pool or partial(judge_responses, self.scorer), self.settings, policy
        )
        numbers = list_missing_tasks(tasks, saved.missing)
        to_judge = frozenset(numbers)
        duplicates = defaultdict[int, list[int]](list)
        left = 0
        for number, first in enumerate(tasks.first_equal):
            if first in to_judge:
                left += len(tasks.response_index.find_task_positions(number))
                if number != first:
                    duplicates[first].append(number)
        finished = frozenset(
            tasks.uid(number) for number in range(len(tasks)) if number not in to_judge
        )
        self.progress.done = earlier = len(saved) - left
        in_flight = self.settings.max_rows_in_progress(self.settings.units_in_flight)
        if policy is not None:
            in_flight += self.settings.openai.num_requests_for_eval

        def record(
            number: int, task: ScoreTask, judged: Sequence[JudgedResponse], seconds: float
        ) -> None:
            self._record(saved, number, task, judged, seconds)
            if number in duplicates:
                shared = [
                    replace(response, result=share_judgment(response.judgment))
                    for response in judged
                ]
                for duplicate in duplicates[number]:
                    self._record(saved, duplicate, tasks[duplicate], shared, 0.0)

        with closing(
            CallLedger(run, finished=finished, keep_texts=self.settings.keep_calls)
        ) as ledger:
            if earlier or ledger.is_resumed:
                logger.info(
                    "resuming %s: %d responses are judged; %s", run.path, earlier, ledger.loss
                )
                self.clients.note_served(ledger.earlier.served)
            self.clients.begin_after(ledger.earlier)
            async with use_batches(run, ledger, self.settings):
                with self.progress.show(run.disk, run.log.write, left=left):
                    try:
                        await judge_rows(
                            tasks,
                            numbers,
                            judge,
                            make_row_end,
                            record,
                            ledger,
                            in_flight=in_flight,
                            is_first_run=is_first,
                        )
                    except NothingSucceeds as error:
                        raise NothingSucceeds(
                            f"{error} (all answers: {run.path / CALLS})"
                        ) from error
        return earlier

    def _record(
        self,
        saved: SavedResponses,
        number: int,
        task: ScoreTask,
        judged: Sequence[JudgedResponse],
        seconds: float,
    ) -> None:
        """Write a line for each response of a task."""
        samples = make_samples(task, self.tasks.key(number).hex(), judged, seconds, self.gold)
        for place, sample in zip(
            self.tasks.response_index.find_task_positions(number), samples, strict=True
        ):
            saved.append(place, sample, is_complete=sample.finished)
            self.progress.add(sample)

    @property
    def _waiting(self) -> str | None:
        actors_waiting = self._actor_pool.waiting if self._actor_pool is not None else None
        return "; ".join(filter(None, (self.clients.delay_reason, actors_waiting))) or None

    async def _pack(self, run: RunDirectory, saved: SavedResponses) -> None:
        if (
            self.settings.keep_calls or saved.are_complete
        ):  # failed responses still need the recorded answers
            await asyncio.to_thread(pack, run.path, keep=self.settings.keep_calls)

    async def _write_output(self, run: RunDirectory, saved: SavedResponses) -> None:
        added = partial(iter_added_columns, self.tasks, saved, self.columns)
        content = scored_content(
            StoredRows(self.input.output_rows), self.tasks.numbers, self.out, added, self.columns
        )
        await run.disk.write(self.out, content, in_thread=True)
        await write_quarantine(self.tasks, self.out, run.disk)

    def _open_gold_column(self) -> GoldColumn | None:
        column, kind = self.settings.gold_column, self.settings.judge
        if column is None:
            return None
        if self.settings.responses_per_prompt is not None:
            raise SettingsError(
                "--gold_column: --responses_per_prompt asks for new responses, which have no gold "
                "label"
            )
        places = self.tasks.response_index
        numbers = [number for number in self.tasks.numbers if number not in self.tasks.bad]
        scale = find_scale(kind, self.settings)
        of_aspects = self.settings.definition.judges_aspects

        def count(row: int) -> int:
            return len(places.find_row_positions(row))

        return GoldColumn(
            self.input.rows,
            numbers,
            column,
            count,
            judges_aspects=of_aspects,
            scale=scale,
            kind=kind,
        )

    def _select_rows(self) -> range:
        """Return the rows to judge: the shard's, the first, or all; groups are not divided."""
        total = len(self.input.rows)
        limit = self.settings.limit
        shard = self.settings.shard
        if shard is None and (limit is None or limit >= total):
            return range(total)
        starts = self.input.group_starts(self.settings)
        if shard is not None:
            return Shard.parse(shard).rows(total, starts)
        return first_rows(min(limit or total, total), total, starts)
