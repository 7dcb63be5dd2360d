"""Attacks as evidence on a card's judge."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from judgegym.judges.prompt_files.card import JudgeCard, add_evidence, load_matching_card
from judgegym.judges.prompt_files.evidence import Evidence, Figure, digest_bytes
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym_trials.attacks.results import AttackResult
from judgegym_trials.attacks.settings import AttackSettings
from judgegym_trials.attacks.targets import Target


def check_card(settings: AttackSettings) -> JudgeCard | None:
    """Return the card of --card; `None` without one.

    Raises:
        SettingsError: it cannot be read, or has another prompt than the judge under attack.
    """
    if settings.card is None:
        return None
    prompt = getattr(settings, "judge_prompt", None)
    try:
        return load_matching_card(settings.card, prompt, "the judge under attack")
    except ValueError as error:
        raise SettingsError(f"--card: {error}") from None


def write_evidence(
    path: Path,
    card: JudgeCard,
    judge: str,
    targets: Sequence[Target],
    results: Sequence[AttackResult],
) -> None:
    """Add the results of attacks to a card.

    Args:
        path: the card's file.
        card: its content before the first call.
        judge: the judge's name.
        targets: the rows under attack.
        results: one for each attack.

    Raises:
        SettingsError: it cannot be written.
    """
    succeeding = [result for result in results if result.finding == "succeeds"]
    figures: dict[str, Figure] = {}
    for result in results:
        if result.counts is not None:
            interval = result.counts.interval()
            figures[f"success/{result.attack.name}"] = Figure(
                value=result.counts.difference, low=interval.low, high=interval.high
            )
    rows = [[target.task.prompt, target.response] for target in targets]
    evidence = Evidence(
        by="attack",
        date=datetime.now(timezone.utc).date(),
        rows=len(targets),
        data=digest_bytes(wire.dumps(rows)),
        judge=card.digest,
        model=judge or None,
        figures=figures,
        attacks=tuple(result.attack.name for result in succeeding),
    )
    try:
        add_evidence(path, evidence)
    except ValueError as error:
        raise SettingsError(f"--card: {error}") from None
