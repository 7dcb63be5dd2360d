"""Compare audits (files of `judgegym audit --json`) on the rows that they share.

The comparison has the paired differences of accuracy and Cohen's κ with gold, computed as for runs.
A verdict that could not be parsed is wrong, and a tie counts half, as in an audit; a score that
could not be parsed is left out and counted.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from judgegym.engine.metrics import GoldLabel
from judgegym.engine.records import explain_errors
from judgegym.engine.terminal.output import printable, say
from judgegym.llm import wire
from judgegym.llm.errors import UserError
from judgegym.reports.compare.comparison import LEVEL, assign_letters
from judgegym.reports.compare.gold import GoldLabels, compare_with_gold
from judgegym.reports.compare.rendering import render_gold, show_gold

AUDIT_FILE = "audit.json"
_UNREAD, _TIE = "unread", "-1"
"""Labels of an unparsable verdict and of a tie (−1 in an audit's file)."""


class _Judgment(BaseModel):
    uid: str
    gold: float
    verdicts: list[float | None]
    right: list[float | None]


class AuditFile(BaseModel):
    """The fields of an audit that a comparison reads."""

    audit: int
    judge: str
    kind: str
    judgments: list[_Judgment]

    def labels(self, uids: Container[str]) -> GoldLabels:
        """Return the labels of the rows with these ids, one for each order of the responses."""
        labels: dict[tuple[str, str], GoldLabel] = {}
        for row in self.judgments:
            if row.uid not in uids:
                continue
            for order, (verdict, right) in enumerate(zip(row.verdicts, row.right, strict=True)):
                if right is not None:
                    labels[row.uid, str(order)] = self._label(row, str(order), verdict, right)
        return labels

    def _label(self, row: _Judgment, order: str, verdict: float | None, right: float) -> GoldLabel:
        if self.kind == "score":
            return GoldLabel(order, row.gold, verdict, None if verdict is None else bool(right))
        verdict_label = _UNREAD if verdict is None else f"{verdict:g}"
        return GoldLabel(order, f"{row.gold:g}", verdict_label, right == 1)


def is_audit(word: str) -> bool:
    """Return whether a word names an audit's JSON file, or a folder with an `audit.json`."""
    path = _audit_path(word)
    try:
        return path.suffix == ".json" and path.is_file() and b'"audit":' in path.open("rb").read(64)
    except OSError:
        return False


def _audit_path(word: str) -> Path:
    path = Path(word).expanduser()
    if (path / AUDIT_FILE).is_file():
        return path / AUDIT_FILE
    return path


def compare_audits(words: Sequence[str], *, rounds: int, seed: int) -> dict[str, Any]:
    """Compare each further audit with the first one.

    Raises:
        UserError: there are fewer than two, one is not an audit, they are of different kinds, share
            no row, or disagree on a gold label.
    """
    if len(words) < 2:
        raise UserError(
            "expected two audits or more; the first is the one that the others are compared with"
        )
    audits = [_open_audit(word) for word in words]
    first, gold = audits[0], [{row.uid: row.gold for row in audit.judgments} for audit in audits]
    uids = [uid for uid in gold[0] if all(uid in later_golds for later_golds in gold[1:])]
    for word, audit, labels in zip(words, audits, gold, strict=True):
        if audit.kind != first.kind:
            raise UserError(f"{words[0]} is an audit of a {first.kind}, {word} of a {audit.kind}")
        differs = next((uid for uid in uids if labels[uid] != gold[0][uid]), None)
        if differs is not None:
            raise UserError(
                f"{word}: the gold label of {differs} is another one than in {words[0]}"
            )
    if not uids:
        raise UserError(f"{' and '.join(words)} share no row")
    letters = assign_letters(words)
    settings = {"rounds": rounds, "seed": seed, "level": LEVEL}
    shared_uids = frozenset(uids)
    tie = _TIE if first.kind == "choice" else None
    return {
        "runs": [
            {"letter": letter, "path": word, "judge": audit.judge}
            for letter, word, audit in zip(letters, words, audits, strict=True)
        ],
        "gold": compare_with_gold(
            [audit.labels(shared_uids) for audit in audits], letters, settings, tie=tie
        ),
        "settings": settings,
        "item": "row",
        "unit": "row",
    }


def _open_audit(word: str) -> AuditFile:
    path = _audit_path(word)
    try:
        return AuditFile.model_validate(wire.loads(path.read_bytes()))
    except IsADirectoryError:
        pass  # a run
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        if is_audit(word):
            why = explain_errors(error) if isinstance(error, ValidationError) else error
            raise UserError(f"{path}: a damaged audit: {why}") from None
    raise UserError(
        f"{path} is no audit, as judgegym audit --json writes it; audits are compared with audits"
    )


def show_audits(comparison: Mapping[str, Any]) -> None:
    """Print a comparison of audits."""
    for run in comparison["runs"]:
        say(f"{run['letter']}  {printable(run['judge'])}, {printable(run['path'])}")
    show_gold(render_gold(comparison, comparison["gold"]))
    settings = comparison["settings"]
    resamples = f"{settings['rounds']:,} resamples of rows, seed {settings['seed']}"
    say(f"Intervals: 95 %, mid-P over rows, paired; those of κ: paired bootstrap, {resamples}.")
