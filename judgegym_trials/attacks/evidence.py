"""Attacks as evidence on a card's judge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from judgegym.judges.prompt_files.evidence import Figure
from judgegym.reports.results.evidence import write_evidence
from judgegym.reports.results.run import SavedRun
from judgegym_trials.attacks.results import AttackResult
from judgegym_trials.attacks.targets import Target


def write_attacks(
    path: Path, run: SavedRun, targets: Sequence[Target], results: Sequence[AttackResult]
) -> None:
    """Add the results of attacks to the card of the judge.

    Args:
        path: the card.
        run: the judged rows with their run.
        targets: the rows under attack.
        results: one for each attack.

    Raises:
        SettingsError: the card cannot be read or written, or has another judge.
    """
    figures: dict[str, Figure] = {}
    for result in results:
        if result.counts is not None:
            interval = result.counts.interval()
            figures[f"success/{result.attack.name}"] = Figure(
                value=result.counts.difference, low=interval.low, high=interval.high
            )
    succeeding = [result.attack.name for result in results if result.finding == "succeeds"]
    rows = [[target.task.prompt, target.response] for target in targets]
    write_evidence(path, run, "attack", rows, figures, succeeding)
