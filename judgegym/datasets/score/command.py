"""`judgegym score DATA --out FILE`: from the command line to the exit code.

Exit codes: 0 done; 1 too many failures, or nothing succeeded; 2 wrong input, with one message; 3
the budget is spent; 130 and 143 stopped by Ctrl-C or SIGTERM. With 3, 130 and 143 all answers are
kept.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.data.opening import STDIN
from judgegym.datasets.cluster.settings import LOCAL
from judgegym.datasets.files.columns import check_out
from judgegym.datasets.files.shards import Shard
from judgegym.datasets.sample import USED_BY, check_sampling_flags
from judgegym.datasets.score.clients import describe_progress, resume_command
from judgegym.datasets.score.settings import OUT, ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.command import (
    FAILED,
    interruptible,
    resumable,
    run_command,
    run_to_exit_code,
    settings_to_run,
)
from judgegym.engine.runs.directory import CONFIG, check_unused, locate_run_directory
from judgegym.environments.command_line.offline import expand_replicas
from judgegym.judges.config.reading.help import make_flags_parser, render_help
from judgegym.judges.config.sources import LoadedSettings, load
from judgegym.judges.core import event_loop
from judgegym.llm.errors import SettingsError

if TYPE_CHECKING:  # imports the metrics, which would delay errors of the settings
    from judgegym.environments.evaluate.evaluation import EvaluationResult
    from judgegym.llm.cost.budget import Budget

_ABOUT = "Judge the rows of a data set, and write them to a file with a score on each."
_GROUPS = {
    "data": "data",
    "judge": "judge (the model that scores)",
    "policy": "policy (the model that is asked for responses, with --responses_per_prompt)",
    "run": "run",
}
MOST_USED = (
    *(
        "data",
        "out",
        "limit",
        "prompt_column",
        "response_column",
        "category_column",
        "group_by",
        "split",
        "rescore",
    ),
    *("judge", "rubric", "aspects", "criteria", "rule", "reward", "combine"),
    *("judge_base_url", "judge_model_name", "judge_api_key_env"),
    *("judge_max_concurrency", "judge_temperature"),
    *("responses_per_prompt", "openai.base_url", "openai.model_name", "openai.api_key_env"),
    *("eval_temperature", "thinking_mode"),
    *(
        "offline",
        "plan",
        "resume",
        "budget_usd",
        "budget_calls",
        "max_judge_error_rate",
        "shard",
        "merge",
    ),
    *("config", "show_config"),
)
"""The settings that `--help` lists, the most used first."""
_PLAN_OUT = "scored.jsonl"
"""The name in place of FILE for a plan without `--out`."""


def main(argv: Sequence[str], *, prog: str) -> int:
    """Run the command.

    Args:
        argv: the command's arguments.
        prog: the program's name in messages.

    Returns:
        The exit code.
    """
    return run_to_exit_code("score", lambda: _run(list(argv), prog))


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser of the command's flags, for shell completion."""
    return make_flags_parser(ScoreSettings, verb=USED_BY)


def _run(words: list[str], prog: str) -> int:
    def read() -> LoadedSettings[ScoreSettings]:
        loaded = load(
            ScoreSettings, add_data_flag(words), prog=prog, reshape=expand_replicas, verb=USED_BY
        )
        check_sampling_flags(loaded, loaded.settings)
        return loaded

    page = partial(
        render_help,
        ScoreSettings,
        words=words,
        verb=USED_BY,
        usage=f"{prog} DATA --out FILE",
        about=_ABOUT,
    )
    loaded = settings_to_run(words, partial(page, groups=_GROUPS, most_used=MOST_USED), read)
    if loaded is None:
        return 0
    return run_command("score", loaded, lambda: _score(loaded, [*prog.split(), *words]))


def add_data_flag(words: Sequence[str]) -> list[str]:
    """Turn a leading data set into `--data`, and a bare `--ray` into its default."""
    first, *other_words = words or [""]
    is_data = first == STDIN or (first and not first.startswith("-"))
    words_with_flag = [f"--data={first}", *other_words] if is_data else list(words)
    return [
        f"{word}={LOCAL}" if _is_bare(word, after) else word
        for word, after in zip_longest(words_with_flag, words_with_flag[1:])
    ]


def _is_bare(word: str, after: str | None) -> bool:
    """Return whether a word is `--ray` without an address."""
    return word == "--ray" and (after is None or after.startswith("-"))


async def _score(loaded: LoadedSettings[ScoreSettings], command: Sequence[str]) -> int:
    settings = loaded.settings
    data, out = resolve_paths(settings)
    if settings.labels is not None:
        from judgegym.reports.labels.file import read_labels  # late, as below

        read_labels(settings.labels)  # before anything is paid for
    if settings.card is not None:
        from judgegym.reports.results.evidence import check_card  # late, as below

        if settings.repeat_column is None or settings.shard is not None:
            raise SettingsError(
                "--card: noise is measured on rows that are judged repeatedly: expected "
                "--repeat_column, and no --shard"
            )
        check_card(settings.card, settings)
    if settings.plan:
        from judgegym.datasets.score.plan import show_plan  # late: few runs are planned

        await show_plan(loaded, data, out)
        return 0
    if settings.merge is not None:
        from judgegym.datasets.score.merge import merge  # late, as below

        return _show_result(
            await merge(settings, data, out, settings.merge), settings, out, command
        )
    result = await judge_data("score", loaded, data, out, command, settings.budget())
    if settings.card is not None:
        from judgegym.reports.results.evidence import write_repeats  # late, as above
        from judgegym.reports.results.run import SavedRun

        write_repeats(settings.card, SavedRun.open(result.path))
    return _show_result(result, settings, out, command)


async def judge_data(
    name: str,
    loaded: LoadedSettings[ScoreSettings],
    data: str,
    out: Path,
    words: Sequence[str],
    budget: Budget | None,
) -> EvaluationResult:
    """Judge the rows of a data set that no earlier run has judged, and write the scored file.

    The run directory is beside the file.

    Args:
        name: the command's name, for the progress display.
        loaded: the settings, and where each was set.
        data: the data set.
        out: the file to write.
        words: the words of the command, as the user typed them.
        budget: the run's budget, which other runs may share.

    Raises:
        UserError: the settings are wrong, a row cannot be judged, or the run cannot be resumed.
        RunStop: the endpoint is unreachable, or the budget is spent; the message says what is
            kept, and how to resume.
    """
    from judgegym.datasets.cluster.pool import (
        check_on_ray,
        open_pool,
    )  # late: errors of the settings come at once
    from judgegym.datasets.score.clients import open_clients
    from judgegym.datasets.score.run import ScoreRun

    settings = loaded.settings
    ray_arguments = None if settings.ray is None else (settings.ray, settings.ray_actors, settings)
    if ray_arguments is not None:
        if settings.judge_batch is not None:
            raise SettingsError(
                "--judge_batch: actors of --ray send requests by themselves; leave out one of the "
                "two"
            )
        check_on_ray(*ray_arguments, is_offline=settings.offline, has_budget=budget is not None)
    event_loop.reduce_garbage_collection()  # the rows are read below, all of them
    async with open_clients(loaded, budget) as clients:
        with interruptible(is_profiled=settings.profile is not None):
            run = ScoreRun(settings, data, out, clients)

        def describe_kept() -> str:
            return describe_progress(run.progress.done, run.tasks.response_index.count, out)

        with (
            resumable(partial(resume_command, settings, words), describe_kept, "go on", budget),
            terminal.ProgressDisplay(name, "responses") as display,
        ):
            async with AsyncExitStack() as stack:
                pool = None
                if ray_arguments is not None:
                    opening = open_pool(*ray_arguments, clients.judge.settings)
                    pool = await stack.enter_async_context(opening)
                return await run.run(display, pool)


def _show_result(
    result: EvaluationResult | None, settings: ScoreSettings, out: Path, command: Sequence[str]
) -> int:
    """Print the result, if there is one (merged shards may have no run); return the exit code."""
    from judgegym.datasets.score.numbers import BEST
    from judgegym.datasets.score.results import select_commands, show_result  # late, as above

    is_several = result is not None and f"eval/{BEST}" in result.metrics.values
    if settings.shard is None:
        next_commands = select_commands(out, is_several=is_several)
    else:
        next_commands = [_merge_command(settings)]
    show_result(result, out, next_commands)
    if result is None or result.problem is None:
        return 0
    shard_command = "the command of a shard, with --resume in place of --shard"
    retry_command = resume_command(settings, command) if settings.merge is None else shard_command
    terminal.warn(f"{result.problem}\nTo judge them again:\n  {retry_command}")
    return FAILED


def _merge_command(settings: ScoreSettings) -> str:
    """Return the command that merges the shards, once all of them are written."""
    count = Shard.parse(settings.shard or "1/1").count
    words = [
        "judgegym",
        "score",
        str(settings.data),
        "--out",
        str(settings.out),
        "--merge",
        str(count),
    ]
    return f"{shlex.join(words)}  # when all {count} shards are there"


def resolve_paths(settings: ScoreSettings) -> tuple[str, Path]:
    """Return the data set and the output file.

    Raises:
        SettingsError: one is missing, or the output cannot be written or was not written by a run.
        RunDirectoryError: the output has a run already, and `--resume` is not set.
    """
    if settings.data is None:
        raise SettingsError("expected a data set: judgegym score DATA --out FILE")
    if settings.out is None and (settings.resume or not settings.plan):
        raise SettingsError("--out: expected the file to write, such as --out scored.parquet")
    out = Path(_PLAN_OUT) if settings.out is None else settings.out.expanduser()
    if settings.merge is not None and settings.shard is not None:
        raise SettingsError(
            "--merge joins all shards, and --shard judges one of them: expected one of the flags"
        )
    if settings.limit is not None and (settings.merge is not None or settings.shard is not None):
        raise SettingsError(
            "--limit: shards are parts of all rows; leave out --limit, or --shard and --merge"
        )
    if settings.rescore and settings.responses_per_prompt is not None:
        raise SettingsError(
            "--rescore judges the responses of a scored file, and --responses_per_prompt asks for "
            "new ones: expected one of the flags"
        )
    if settings.shard is not None:
        out = Shard.parse(settings.shard).path(out)
    if settings.out is None:
        return settings.data, out  # of a plan
    check_out(out, data=settings.data)
    run = locate_run_directory(out)
    if settings.plan:
        return settings.data, out  # nothing is written
    if not settings.resume:
        check_unused(run, OUT)
    if out.exists() and not (run / CONFIG).exists():
        raise SettingsError(
            f"--out: {out} exists, and no run beside it ({run.name}) has written it, so it is not "
            "overwritten; name another file, or remove this one"
        )
    return settings.data, out
