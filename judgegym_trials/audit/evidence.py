"""An audit as evidence on a card's judge."""

from __future__ import annotations

from pathlib import Path

from judgegym.judges.prompt_files.card import JudgeCard, add_evidence, load_card
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
    try:
        card = load_card(path)
        _check_prompt(card, run)
        add_evidence(path, _make_evidence(card, run, result))
    except ValueError as error:
        raise SettingsError(f"--card: {error}") from None


def _check_prompt(card: JudgeCard, run: SavedRun) -> None:
    """Check that the run has judged by the card's prompt.

    Raises:
        ValueError: it has judged by another one, or the card has none.
    """
    if card.prompt_file is None:
        raise ValueError("only a card with a prompt can be compared with the run's settings")
    judge_prompt = run.judge_settings.get("judge_prompt")
    if judge_prompt is None or PromptFile.model_validate(judge_prompt) != card.prompt_file:
        raise ValueError(
            f"{run.path} has not judged by this card's prompt, or not by its present one"
        )


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
