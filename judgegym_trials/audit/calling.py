"""Command `judgegym audit DATA --judge KIND --out FOLDER`: an audit that calls the judge.

Exit codes: 0 no check fails; 1 too many failures, or all failed; 2 wrong input, with one message; 3
the budget is spent; 4 a check fails; 130 and 143 stopped by Ctrl-C or SIGTERM, with all responses
kept.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.engine import terminal
from judgegym.engine.command import FAILED, run_command, run_to_exit_code
from judgegym.engine.plan.client import DryRun
from judgegym.engine.plan.lines import Plan
from judgegym.engine.runs.directory import locate_run_directory
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.terminal.output import format_dollars
from judgegym.judges.config.extras import require
from judgegym.judges.config.sources import LoadedSettings
from judgegym.llm import wire
from judgegym.llm.usage import Usage
from judgegym_trials import judged_rows
from judgegym_trials.audit import FAULT
from judgegym_trials.audit.asking import (
    CalledAuditSettings,
    collect_judgments,
    list_parts,
    select_labelled,
)
from judgegym_trials.audit.settings import AuditSettings, load_settings

if TYPE_CHECKING:
    from judgegym_trials.audit.audit import Audit

PAGE, JSON_FILE = "audit.html", "audit.json"
_ABOUT = (
    "Audit a judge on labelled rows by calling it: both orders, repeats, paraphrases, and a second "
    "form."
)
_MOST_USED = (
    *(
        "data",
        "out",
        "limit",
        "label_column",
        "gold_column",
        "models_column",
        "card",
        "prompt_column",
        "response_column",
    ),
    *("repeats", "paraphrases", "sample", "second_form", "settings"),
    *(
        "judge",
        "rubric",
        "aspects",
        "criteria",
        "judge_base_url",
        "judge_model_name",
        "judge_api_key_env",
    ),
    *("judge_max_concurrency", "judge_temperature", "judge_price_input", "judge_price_output"),
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
    """Run the command; return the exit code.

    Args:
        argv: the command line without the program's name.
        prog: the command as the user typed it.
    """
    return run_to_exit_code("audit", lambda: _run(list(argv), prog))


def _run(words: list[str], prog: str) -> int:
    load = judged_rows.load_command_settings
    loaded = load(
        CalledAuditSettings, words, prog, about=_ABOUT, group="audit", most_used=_MOST_USED
    )
    if loaded is None:
        return 0
    settings = loaded.settings
    require("audit")
    thresholds = load_settings(settings.settings)
    return run_command("audit", loaded, lambda: _audit(loaded, thresholds, [*prog.split(), *words]))


async def _audit(
    loaded: LoadedSettings[CalledAuditSettings], thresholds: AuditSettings, words: Sequence[str]
) -> int:
    # Imported here: it needs numpy, and errors in settings come at once.
    from judgegym.reports.results.evidence import check_card
    from judgegym.reports.results.run import SavedRun
    from judgegym_trials.audit.audit import audit
    from judgegym_trials.audit.evidence import write_audit

    settings = loaded.settings
    folder = judged_rows.resolve_folder(
        settings, settings.out, command="audit", data="labelled rows"
    )
    targets = select_labelled(judged_rows.read_tasks(settings), settings)
    parts, unmeasured = await list_parts(targets, settings)
    if settings.plan:
        plans, dry = dict[str, Plan](), DryRun()
        for part in parts:
            part_settings = LoadedSettings(part.settings, loaded.origins)
            plans[part.name] = await judged_rows.plan_rows(
                part_settings, part.rows, folder and folder / part.name, dry
            )
        terminal.say("\n".join(_combine_plans(plans).lines()))
        return 0
    assert folder is not None  # otherwise loading has raised
    if settings.card is not None:
        check_card(settings.card, settings)
    for part in parts:
        judged_rows.check_folder(folder / part.name, resume=settings.resume)
    budget = settings.budget()
    judged: dict[str, judged_rows.JudgedRows] = {}
    for part in parts:
        part_folder = folder / part.name
        resumes = (
            settings.resume and locate_run_directory(part_folder / judged_rows.JUDGED).exists()
        )
        part_settings = LoadedSettings(
            part.settings.model_copy(update={"resume": resumes}), loaded.origins
        )
        judged[part.name] = await judged_rows.judge_rows(
            part_settings, part.rows, part_folder, words, budget
        )
    judgments = await asyncio.to_thread(collect_judgments, targets, settings, judged, unmeasured)
    result = audit(judgments, thresholds)
    if settings.card is not None:
        write_audit(settings.card, SavedRun.open(judged[parts[0].name].run), result)
    return _finish(result, settings, [*judged.values()], folder)


def _finish(
    result: Audit,
    settings: CalledAuditSettings,
    judged: Sequence[judged_rows.JudgedRows],
    folder: Path,
) -> int:
    """Write the files and print the result; return the exit code."""
    from judgegym_trials.audit.page import html, show  # imported here, as above

    write_atomic(folder / JSON_FILE, wire.dumps_readable(result.to_json()))
    write_atomic(folder / PAGE, b"".join(html(result)))
    show(result)
    usages: list[Usage] = []
    for part in judged:
        for sample in chain.from_iterable(part.by_uid.values()):
            usages += [call.usage for call in (sample.run.judge_calls or {}).values()]
    costs = [usage.cost for usage in usages if usage.cost is not None]
    call_count, price = len(usages), ""
    if len(costs) == call_count:
        dollars = format_dollars(sum(costs))
        price = f", {dollars}"
    terminal.say(f"{call_count:,} calls{price}; the page is {folder / PAGE}")
    if settings.offline:
        terminal.say(terminal.offline_notice(("judge",)))
    failed = [part for part in judged if part.problem is not None]
    for part in failed:
        terminal.warn(f"{part.problem}\nTo judge them again:\n  {part.again}")
    if failed:
        return FAILED
    if result.fails:
        return FAULT
    return 0


def _combine_plans(plans: Mapping[str, Plan]) -> Plan:
    """Combine the plans of all parts, with the calls of each."""
    first, *others = plans.values()
    if not others:
        return first
    return dataclasses.replace(
        first,
        estimate=reduce(add, (plan.estimate for plan in plans.values())),
        head=[
            (name, f"{plan.estimate.total.usual.calls:,.0f} calls") for name, plan in plans.items()
        ],
        earlier=list(chain.from_iterable(plan.earlier for plan in plans.values())),
    )
