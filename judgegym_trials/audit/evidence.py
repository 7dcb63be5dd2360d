"""An audit as evidence on a card's judge."""

from __future__ import annotations

from pathlib import Path

from judgegym.judges.prompt_files.card import JudgeCard, add_evidence, load_matching_card
from judgegym.judges.prompt_files.evidence import Evidence, Figure, digest_bytes
from judgegym.judges.prompt_files.file import PromptFile
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.reports.results.run import SavedRun
from judgegym_trials.audit.audit import Audit
from judgegym_trials.audit.decision import CheckResult


def write_evidence(path: Path, run: SavedRun, result: Audit) -> None:
    """Add an audit of a run to the card of its judge.

    Raises:
        SettingsError: the card cannot be read or written, or the run had another prompt.
    """
    prompt = run.judge_settings.get("judge_prompt")
    try:
        judged_by = None if prompt is None else PromptFile.model_validate(prompt)
        card = load_matching_card(path, judged_by, str(run.path))
        add_evidence(path, _make_evidence(card, run, result))
    except ValueError as error:
        raise SettingsError(f"--card: {error}") from None


def _make_evidence(card: JudgeCard, run: SavedRun, result: Audit) -> Evidence:
    figures = {
        check.name: figure for check in result.checks if (figure := _make_figure(check)) is not None
    }
    rows = [[row["uid"], row["gold"]] for row in result.judgments]
    return Evidence(
        by="audit",
        date=run.date.date(),
        rows=result.rows,
        data=digest_bytes(wire.dumps(rows)),
        judge=card.digest,
        model=run.judge or None,
        figures=figures,
    )


def _make_figure(check: CheckResult) -> Figure | None:
    """Return a measured check's number and interval."""
    if check.value is None:
        return None
    if check.interval is None:
        return Figure(value=check.value)
    return Figure(value=check.value, low=check.interval.low, high=check.interval.high)
