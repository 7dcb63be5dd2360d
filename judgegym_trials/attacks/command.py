"""Command `judgegym attack DATA --out FOLDER`.

Exit codes: 0 no attack succeeds; 1 too many failures, or all failed; 2 wrong input, with one
message; 3 the budget is spent; 4 an attack succeeds; 130 and 143 stopped by Ctrl-C or SIGTERM, with
all responses kept.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.engine import terminal
from judgegym.engine.command import FAILED, run_command, run_to_exit_code
from judgegym.judges.config.reading.help import make_flags_parser
from judgegym.judges.config.sources import LoadedSettings
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym_trials.attacks.settings import AttackSettings
from judgegym_trials.judged_rows import load_command_settings

if TYPE_CHECKING:
    from judgegym_trials.attacks.report import AttackReport
    from judgegym_trials.judged_rows import JudgedRows

ATTACK_SUCCEEDS = 4
"""Exit code if an attack succeeds."""
_ABOUT = "Attack a judge on rows of your own: which texts raise a score, or are paid for nothing."
MOST_USED = (
    *("data", "out", "limit", "without_responses", "prompt_column", "response_column", "split"),
    *("attacks", "only", "min_gain", "max_success", "max_floor"),
    *("judge", "rubric", "aspects", "criteria", "rule", "reward", "combine"),
    *(
        "judge_base_url",
        "judge_model_name",
        "judge_api_key_env",
        "judge_max_concurrency",
        "judge_temperature",
    ),
    *(
        "offline",
        "plan",
        "resume",
        "budget_usd",
        "budget_calls",
        "max_judge_error_rate",
        "config",
        "show_config",
    ),
)
"""Settings in the order of `--help`, the most used first."""


def main(argv: Sequence[str], *, prog: str) -> int:
    """Run the command.

    Args:
        argv: the command line without the program's name.
        prog: the command as the user typed it.

    Returns:
        The exit code.
    """
    return run_to_exit_code("attack", lambda: _run(list(argv), prog))


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Build the parser of the flags, for shell completion."""
    return make_flags_parser(AttackSettings)


def _run(words: list[str], prog: str) -> int:
    loaded = load_command_settings(
        AttackSettings, words, prog, about=_ABOUT, group="attack", most_used=MOST_USED
    )
    if loaded is None:
        return 0
    return run_command("attack", loaded, lambda: _attack(loaded, [*prog.split(), *words]))


async def _attack(loaded: LoadedSettings[AttackSettings], words: Sequence[str]) -> int:
    # Imported here, so that errors in settings come at once.
    from judgegym.reports.results.evidence import check_card
    from judgegym.reports.results.run import SavedRun
    from judgegym_trials.attacks.evidence import write_attacks
    from judgegym_trials.attacks.report import AttackReport
    from judgegym_trials.attacks.results import FALSE_DISCOVERIES, measure_attacks, rows_needed
    from judgegym_trials.attacks.suite import select_attacks
    from judgegym_trials.attacks.targets import derive_rows, select_targets
    from judgegym_trials.judged_rows import (
        check_folder,
        judge_rows,
        plan_rows,
        read_tasks,
        resolve_folder,
    )

    settings = loaded.settings
    folder = resolve_folder(settings, settings.out, command="attack", data="a data set")
    attacks = select_attacks(settings.attacks, settings.only)
    if settings.card is not None:
        check_card(settings.card, settings)
    if folder is not None and not settings.plan:
        check_folder(folder, resume=settings.resume)
    tasks = read_tasks(settings, with_responses=not settings.without_responses)
    targets = select_targets(tasks, settings)
    rows, made, left_out = await derive_rows(targets, attacks, settings)
    if not made:
        raise SettingsError(
            "no attack applies to this judge and these rows; choose others with --only"
        )
    attack_count = len(made)
    target_count = len(targets)
    row_count = len(rows)
    terminal.warn(
        f"{attack_count} attacks on {target_count:,} rows: {row_count:,} judgments with twins "
        "and repeats"
    )
    if settings.plan:
        plan = await plan_rows(loaded, rows, folder)
        terminal.say("\n".join(plan.lines()))
        return 0
    assert folder is not None  # otherwise loading has raised
    judged = await judge_rows(loaded, rows, folder, words)
    results = await asyncio.to_thread(measure_attacks, targets, made, rows, judged, settings)
    notes = []
    if any(result.finding == "underpowered" for result in results):
        needed = rows_needed(sum(len(result.p_values) for result in results), FALSE_DISCOVERIES)
        notes.append(
            f"Underpowered: to tell a success, {needed} rows are needed whose twin has room above "
            "its score."
        )
    if settings.offline:
        notes.append(terminal.offline_notice(("judge",)))
    calls = 0
    for samples in judged.by_uid.values():
        calls += sum(len(sample.run.judge_calls or ()) for sample in samples)
    names = [attack.name for attack in left_out]
    judge = judged.judge
    if settings.card is not None:
        write_attacks(settings.card, SavedRun.open(judged.run), targets, results)
    return _write_results(
        AttackReport(settings, judge, len(targets), results, names, calls, notes), folder, judged
    )


def _write_results(report: AttackReport, folder: Path, judged: JudgedRows) -> int:
    """Write the files and print the result; return the exit code."""
    from judgegym.engine.runs.disk import write_atomic
    from judgegym.engine.terminal.summary import cost_lines
    from judgegym_trials.attacks.report import (
        JSON_FILE,
        PAGE,
        dump_report,
        html,
        list_paid_attacks,
        make_table,
    )

    write_atomic(folder / JSON_FILE, wire.dumps_readable(dump_report(report)))
    write_atomic(folder / PAGE, b"".join(html(report)))
    terminal.show_table(make_table(report))
    for line in (*list_paid_attacks(report), *report.method, *report.notes):
        terminal.say(line)
    for cost in cost_lines(judged.metrics, "eval"):
        terminal.say(f"{cost.label}  {cost.value}  {cost.remark}".strip())
    terminal.say(
        f"The page is {folder / PAGE}; the numbers are in {folder / JSON_FILE}; the run is in "
        f"{judged.run}"
    )
    if judged.problem is not None:
        terminal.warn(f"{judged.problem}\nTo judge them again:\n  {judged.again}")
        return FAILED
    if report.successes:
        return ATTACK_SUCCEEDS
    return 0
