"""A run as evidence on its judge: the model that was served, the price of a row, repeated rows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

from judgegym.judges.prompt_files.evidence import Evidence, Figure, Source, digest_bytes
from judgegym.judges.prompt_files.evidence_file import add_evidence
from judgegym.judges.scorers.cards import load_matching_card
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON, mapping_or_empty
from judgegym.reports.results.run import SavedRun
from judgegym.statistics.intervals import estimate_mean

_COST, _ROWS = "eval/judge_cost_usd", "eval/total_samples"


def write_evidence(
    path: Path,
    run: SavedRun,
    by: Source,
    rows: Sequence[JSON],
    figures: Mapping[str, Figure],
    attacks: Sequence[str] = (),
) -> None:
    """Add what a command measured on a run's judge to the judge's card.

    Args:
        path: the card.
        run: the run.
        by: the command.
        rows: what stands for each row in the digest of the data.
        figures: what was measured, by name; the price of a row is added.
        attacks: the attacks that succeed.

    Raises:
        SettingsError: the card cannot be read or written, or the run has another judge.
    """
    price = _measure_price(run)
    try:
        card = load_matching_card(path, run.judge_settings, str(run.path))
        evidence = Evidence(
            by=by,
            date=run.date.date(),
            rows=len(rows),
            data=digest_bytes(wire.dumps(list(rows))),
            judge=card.digest,
            model=run.judge or None,
            served=tuple(sorted(mapping_or_empty(wire.lookup(run.general, "served_models.judge")))),
            figures={**figures, **({} if price is None else {"price_per_row": price})},
            attacks=tuple(attacks),
        )
        add_evidence(path, evidence)
    except ValueError as error:
        raise SettingsError(f"--card: {error}") from None


def check_card(path: Path, settings: BaseModel) -> None:
    """Check, before a call is paid for, that settings are those of a card's judge.

    Raises:
        SettingsError: the card cannot be read, or has another judge.
    """
    try:
        load_matching_card(path, settings.model_dump(mode="json"), "this command")
    except ValueError as error:
        raise SettingsError(f"--card: {error}") from None


def write_repeats(path: Path, run: SavedRun) -> None:
    """Add what the repeated rows of a run say about its judge's noise to the judge's card.

    Raises:
        SettingsError: no row was judged twice, the card cannot be read or written, or the run has
            another judge.
    """
    scores: dict[str, list[float]] = defaultdict(list)
    for sample in run.samples():
        if sample.score is not None:
            answers = [completion.answer for completion in sample.completions]
            row = wire.dumps([sample.question, dict(sample.texts), answers])
            scores[row.decode()].append(sample.score)
    repeated = {row: values for row, values in scores.items() if len(values) > 1}
    if not repeated:
        raise SettingsError(
            f"--card: {run.path}: no row was judged twice, so there is no noise to measure"
        )
    write_evidence(path, run, "repeat", [*repeated], _measure_repeats([*repeated.values()]))


def _measure_repeats(repeats: Sequence[Sequence[float]]) -> Mapping[str, Figure]:
    """Return the noise of a score, and how often two judgments of a row are equal."""
    squares = degrees = 0.0
    shares: list[float] = []
    for scores in repeats:
        mean = math.fsum(scores) / len(scores)
        squares += math.fsum((score - mean) ** 2 for score in scores)
        degrees += len(scores) - 1
        equal = sum(scores.count(score) - 1 for score in scores)
        shares.append(equal / (len(scores) * (len(scores) - 1)))
    noise = Figure(value=math.sqrt(squares / degrees))
    estimate = estimate_mean(shares)
    if isinstance(estimate, str):
        return {"noise": noise, "repeatability": Figure(value=shares[0])}
    interval = estimate.interval()
    repeatability = Figure(value=estimate.value, low=interval.low, high=interval.high)
    return {"noise": noise, "repeatability": repeatability}


def _measure_price(run: SavedRun) -> Figure | None:
    """Return the cost of the judge's calls over the rows; `None` if it is not known."""
    cost, rows = run.metrics.get(_COST), run.metrics.get(_ROWS)
    if cost is None or not rows:
        return None
    return Figure(value=cost / rows)
