"""One run of `judgegym score`: its rows, its judge, the run directory, and the file that it writes at the end.

Guarantees: all rows are read and checked before the first call; an answer is in the ledger before it is used; FILE is
written as a whole, when each response has ended with a score or a failure.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import closing
from functools import cached_property, partial
from pathlib import Path

from judgegym.data.answers import warn_of_unread
from judgegym.data.rows import DataSet
from judgegym.datasets.files.columns import RESPONSE, AddedColumns, check_columns
from judgegym.datasets.files.shards import Shard, first_rows, group_starts
from judgegym.datasets.files.writer import StoredRows, quarantine_lines, quarantine_of, scored_content
from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.datasets.sample import FinishUnit, JudgeElsewhere, JudgingEarlier, PolicySampler, ResponseJudge
from judgegym.datasets.score.clients import ScoreClients, note_earlier
from judgegym.datasets.score.results.ending import Part, ScoreOutput, concluded
from judgegym.datasets.score.saved import (
    FinishedTasks,
    GoldColumn,
    ResponseLines,
    SavedResponses,
    missing_tasks,
    open_saved,
    read_earlier,
    task_end,
)
from judgegym.datasets.score.settings import OUT, SKIP_HINT, AddedOfRows, ScoreSettings, read_input
from judgegym.engine.loop import NothingSucceeds, RunProgress, judge_rows
from judgegym.engine.runs.directory import RunDirectory, run_directory_of
from judgegym.engine.runs.disk import Disk, remove_unfinished
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.runs.recorded_calls import CALLS, pack
from judgegym.engine.terminal import ProgressDisplay
from judgegym.judges.core.tasks import TaskJudge, judge_responses
from judgegym.judges.scorers.registry import open_judge
from judgegym.llm.budget import Budget
from judgegym.llm.errors import SettingsError
from judgegym.reports.run_page.page import write_report_after

logger = logging.getLogger(__name__)


async def write_quarantine(tasks: ScoreTasks, rows: DataSet, out: Path, disk: Disk) -> None:
    """Write the rows that could not be judged beside the output; without any, remove an earlier file.

    Raises:
        DiskFull: the disk refused for too long.
    """
    path = quarantine_of(out)
    if tasks.bad or rows.bad_lines:
        await disk.write(path, lambda: quarantine_lines(tasks.bad, rows.bad_lines))
    else:
        path.unlink(missing_ok=True)


class ScoreRun:
    """The rows of a data set, and their judge."""

    def __init__(
        self, settings: ScoreSettings, data: str, out: Path, clients: ScoreClients, *, budget: Budget | None = None
    ) -> None:
        """Read and check all rows.

        Args:
            settings: all settings.
            data: where the rows are.
            out: the file to write.
            clients: the judge, and the policy if it is asked for responses.
            budget: that of the clients, if they have one.

        Raises:
            DataError: the data cannot be loaded, or a row cannot be judged.
            SettingsError: the judge's settings are wrong.
        """
        self.settings, self.out, self.clients, self.budget = settings, out, clients, budget
        self.scorer: TaskJudge = open_judge(settings, clients.judge)
        self.input = found = read_input(settings, data)
        sampled, numbers = settings.responses_per_prompt, self._numbers()
        self.tasks = ScoreTasks(
            found.rows, settings, self.scorer.check, numbers, sampled=sampled, earlier=found.earlier
        )
        if settings.on_bad_row == "fail" or len(self.tasks.bad) == len(found.rows):
            self.tasks.require_all(f"\n{SKIP_HINT}")
        self.gold = self._gold_labels()
        self.columns = AddedColumns(self.tasks.several, sampled=sampled is not None)
        check_columns(found.own, self.columns, out)
        read_from = {**self.tasks.reader.columns, **({} if found.earlier is None else {"responses": RESPONSE})}
        said = ", ".join(f"{what} from {column}" for what, column in read_from.items())
        of = "" if self.settings.limit is None else f" of {len(found.rows):,}"
        warn_of_unread(data, self.tasks.reader.unread)
        if self.tasks.bad:
            first = self.tasks.bad[min(self.tasks.bad)]
            logger.warning(
                "rows that cannot be judged, and have no score: %d; the first: %s", len(self.tasks.bad), first
            )
        if found.rows.bad_lines:
            logger.warning(
                "lines of %s that are no JSON objects, and are left out: %d", data, len(found.rows.bad_lines)
            )
        logger.info("%s%s rows; %s", f"{len(self.tasks.numbers):,}", of, said)
        self._elsewhere: JudgeElsewhere | None = None
        self._progress = RunProgress("mean score", lambda: self._waiting, None)

    async def run(self, display: ProgressDisplay, elsewhere: JudgeElsewhere | None = None) -> ScoreOutput:
        """Judge what an earlier run has not judged, and write the file.

        Args:
            display: shows the progress.
            elsewhere: judges instead of the client, in other processes.

        Raises:
            RunDirectoryError: the run cannot be resumed, or another process is at it.
            NothingSucceeds: the first ten tasks failed.
            DiskFull: the disk refused for too long.
            BudgetSpent: the budget allows no further request. All answers are in the ledger, and no file is written.
        """
        self._elsewhere = elsewhere
        self._progress = RunProgress("mean score", lambda: self._waiting, display)
        started, settings, path = time.monotonic(), self.settings, run_directory_of(self.out)
        disk = Disk(settings.disk_full_deadline)
        run, before = RunDirectory.open(
            path,
            config=settings.public(),
            matters=settings.matters(),
            resume=settings.resume,
            disk=disk,
            elsewhere=OUT,
        )
        try:
            with run.log.ending():
                saved = open_saved(self.tasks, run)
                with closing(saved):
                    found = read_earlier(before, self.tasks, saved, limit=settings.limit)
                    self._progress.add_paid(found.share, "judge", [found.usage])
                    if self.clients.policy is not None:
                        self._progress.add_paid(None, "policy", [found.policy_usage])
                    if found.changed:
                        logger.warning(
                            "responses whose rows have changed since, and are judged again, or are gone: %d",
                            found.changed,
                        )
                    run.drop_results()
                    remove_unfinished(self.out)  # this process has the directory, so nobody else writes it
                    earlier = await self._judge(run, saved)
                    scored = await self._finish(run, saved, started, earlier)
                if settings.write_report:
                    await write_report_after(path, disk)
                return scored
        finally:
            run.close()

    async def _judge(self, run: RunDirectory, saved: SavedResponses) -> int:
        """Judge what is missing; return how many responses were judged before."""
        numbers = missing_tasks(self.tasks, saved.missing)
        judged = FinishedTasks(self.tasks, numbers)
        in_flight = self.settings.units_in_flight
        if self.clients.policy is not None:
            in_flight += self.settings.openai.num_requests_for_eval
        left = sum(
            len(self.tasks.places.of_task(number))
            for number, first in enumerate(self.tasks.first_equal)
            if not judged.has(first)
        )
        self._progress.done = earlier = len(saved) - left
        with closing(CallLedger(run, finished=judged, keep_texts=self.settings.keep_calls)) as ledger:
            if earlier or ledger.is_resumed:
                logger.info("resuming %s: %d responses are judged; %s", run.path, earlier, ledger.loss)
            if self.budget is not None:
                note_earlier(self.budget, ledger, [client.settings for client in self.clients.all])
            lines = ResponseLines(self.tasks, saved, self._progress.add, self.gold)
            with self._progress.shown(run.disk, run.log.write, left=left):
                try:
                    await judge_rows(
                        self.tasks,
                        numbers,
                        self._finish_unit,
                        task_end,
                        lines.record,
                        ledger=ledger,
                        disk=run.disk,
                        in_flight=in_flight,
                        is_first_run=len(saved.missing) == len(saved),
                    )
                except NothingSucceeds as error:
                    raise NothingSucceeds(f"{error} (all answers: {run.path / CALLS})") from error
        return earlier

    @property
    def judged(self) -> int:
        """How many responses have ended, with a score or a failure, those of earlier runs included."""
        return self._progress.done

    @property
    def _waiting(self) -> str | None:
        elsewhere = self._elsewhere.waiting if self._elsewhere is not None else None
        return "; ".join(filter(None, (self.clients.waiting, elsewhere))) or None

    @cached_property
    def _finish_unit(self) -> FinishUnit:
        """What judges a task; a policy is asked for its responses first, if there is one."""
        judging, policy = ResponseJudge(self._elsewhere or partial(judge_responses, self.scorer)), self.clients.policy
        if self.input.earlier is not None:
            return JudgingEarlier(judging)
        return judging if policy is None else PolicySampler(policy, judging)

    async def _finish(self, run: RunDirectory, saved: SavedResponses, started: float, earlier: int) -> ScoreOutput:
        """Put the lines in order, and write the file and the metrics, while another core compresses the ledger."""
        await saved.sort()
        packing = asyncio.create_task(self._pack(run, saved))
        try:
            await self._write(run, saved)
            result = await concluded(
                self.settings,
                self.tasks,
                saved,
                run,
                datasets=self.input.datasets,
                answers_of=self.input.answers_of,
                notices=[*filter(None, [self.clients.judge.formats.words])],
                part=Part(time.monotonic() - started, len(saved) - earlier, earlier > 0, self.clients.finish_reasons),
            )
        finally:
            await packing  # the directory is this process's until then
        return ScoreOutput(self.out, run.path, result)

    async def _pack(self, run: RunDirectory, saved: SavedResponses) -> None:
        if self.settings.keep_calls or saved.are_complete:  # failed responses still need the answers
            await asyncio.to_thread(pack, run.path, keep=self.settings.keep_calls)

    async def _write(self, run: RunDirectory, saved: SavedResponses) -> None:
        added = AddedOfRows(self.tasks, saved, self.columns)
        content = scored_content(StoredRows(self.input.own), self.tasks.numbers, self.out, added, self.columns)
        await run.disk.write(self.out, content, in_thread=True)
        await write_quarantine(self.tasks, self.input.rows, self.out, run.disk)

    def _gold_labels(self) -> GoldColumn | None:
        column, of_aspects = self.settings.gold_column, self.settings.judge == "aspect"
        if column is None:
            return None
        if self.settings.responses_per_prompt is not None:
            raise SettingsError(
                "--gold_column: --responses_per_prompt asks for new responses, which have no gold label"
            )
        places = self.tasks.places
        numbers = [number for number in self.tasks.numbers if number not in self.tasks.bad]
        return GoldColumn(self.input.rows, numbers, column, lambda row: len(places.of_row(row)), of_aspects=of_aspects)

    def _numbers(self) -> range:
        """The rows that are judged: those of the shard, the first ones, or all. Groups are not divided."""
        total, limit, shard, by = len(self.input.rows), self.settings.limit, self.settings.shard, self.settings.group_by
        if shard is None and (limit is None or limit >= total):
            return range(total)
        starts = None if by is None else group_starts(self.input.rows, by)
        if shard is not None:
            return Shard.parse(shard).rows(total, starts)
        return first_rows(min(limit or total, total), total, starts)
