"""An audit: every check measured and compared with its threshold, and stored for comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from judgegym.llm.wire import JSON
from judgegym_trials.audit.checks import calibration_curve, measure_all
from judgegym_trials.audit.decision import CheckResult, decide
from judgegym_trials.audit.judgments import GIVEN, SWAPPED, Judgments
from judgegym_trials.audit.noise import RARE_UP_TO, compare_labels
from judgegym_trials.audit.settings import AuditSettings

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Floats

FORMAT = 1
"""Version of an audit's JSON."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Results of an audit, with the data to read them and to compare them with another audit.

    Attributes:
        judge: the judge's name.
        source: where the judgments come from.
        kind: the kind of the judge's verdicts.
        rows: number of audited rows.
        clusters: number of independent clusters of rows.
        left_out: number of rows left out, by reason.
        checks: all checks, in their order.
        notes: how it was decided, and remarks that a reader needs.
        categories: for each category, its rows and right verdicts in each order and in both.
        curve: the calibration curve: rows, mean probability, share.
        judgments: each row's uid, cluster, gold, verdicts and how right they are.
        level: level of the intervals.
    """

    judge: str
    source: str
    kind: str
    rows: int
    clusters: int
    left_out: Mapping[str, int]
    checks: Sequence[CheckResult]
    notes: Sequence[str]
    categories: Sequence[Mapping[str, JSON]]
    curve: Sequence[tuple[int, float, float]]
    judgments: Sequence[Mapping[str, JSON]]
    level: float

    @property
    def fails(self) -> bool:
        """Whether a check fails."""
        return any(check.word == "fails" for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, which `judgegym compare` reads."""
        return {"audit": FORMAT, **asdict(self)}


def audit(judgments: Judgments, settings: AuditSettings) -> Audit:
    """Measure all checks and decide."""
    rows = len(judgments)
    clusters = len(np.unique(judgments.clusters))
    checks = decide(measure_all(judgments), settings, rows)
    tests = sum(check.p is not None for check in checks)
    of_labels, is_promised = _describe_labels(judgments, settings)
    if is_promised:
        promise = (
            "a judge without any fault is accused by some check in at most "
            f"{100 * settings.alpha:g} % of audits, so the false discovery rate is at most that, too"
        )
    else:
        promise = (
            "how often a judge without any fault is accused depends on how many labels are wrong, "
            "since each of them counts as an error of the judge"
        )
    notes = [
        of_labels,
        f"{tests} checks have a threshold and were tested. Their p-values are corrected for that "
        f"number (Holm): {promise}. Intervals ({100 * settings.level:g} %) are not corrected.",
        "passes: the whole interval is on the good side of the threshold. fails: the corrected "
        f"p-value is at most {settings.alpha:g}. suspect: the whole interval is on the bad side, "
        "and the p-value is larger. underpowered: none of these; rows are planned for a power of "
        f"{100 * settings.power:g} %. cannot tell: it depends on how many labels are wrong. Only "
        "what fails makes exit code 4.",
    ]
    if clusters < rows:
        notes.append(
            f"{rows:,} labels are of {clusters:,} independent rows; intervals and tests are "
            "clustered by these."
        )
    return Audit(
        judgments.judge,
        judgments.source,
        judgments.kind,
        rows,
        clusters,
        dict(judgments.left_out),
        checks,
        notes,
        _describe_categories(judgments),
        calibration_curve(judgments),
        _describe_rows(judgments),
        settings.level,
    )


def _describe_labels(judgments: Judgments, settings: AuditSettings) -> tuple[str, bool]:
    """Describe what is known of wrong labels.

    Also return whether a faultless judge is accused as rarely as `alpha` says.
    """
    stated = judgments.label_noise
    second = compare_labels(judgments)
    if stated is not None:
        without = " Second labels are not used." if judgments.second_gold is not None else ""
        if stated == 0:
            return f"Gold labels are exact, as stated (--label_noise).{without}", True
        return (
            f"{100 * stated:g} % of the gold labels are wrong, as stated (--label_noise).{without}",
            False,
        )
    if second is None:
        effects = f"at each share of wrong labels from 0 to {100 * settings.label_noise_bound:g} %"
        return (
            "Nobody has said how many gold labels are wrong, and each row has one: effects of "
            f"properties pass or fail only if they would {effects}. Second labels (--labels, "
            "second_label) or --label_noise SHARE (0: exact) tell more.",
            False,
        )
    differs = f"{second.rows:,} rows have labels of two people, who differ on {second.differ:,}"
    share = (
        f"{differs}: {100 * second.noise:.1f} % of the labels are wrong, if they err independently"
    )
    if second.noise <= RARE_UP_TO:
        return f"{share}. Effects of properties are of these rows, with the truth held fixed.", True
    return f"{share}. That is too many to measure effects of properties reliably.", False


def _describe_categories(judgments: Judgments) -> list[Mapping[str, JSON]]:
    """Return each category's rows and right verdicts, in the order of their first rows."""
    names = list(dict.fromkeys(judgments.categories))
    if len(names) < 2:
        return []
    of_rows = np.array([names.index(category) for category in judgments.categories])
    right = judgments.right
    lines: list[Mapping[str, JSON]] = []
    for number, name in enumerate(names):
        category_right = right[of_rows == number]
        line: dict[str, JSON] = {
            "name": name,
            "rows": len(category_right),
            "right_given": float(np.nansum(category_right[:, GIVEN])),
        }
        if judgments.has_orders:
            line["right_swapped"] = float(np.nansum(category_right[:, SWAPPED]))
            line["right_both"] = int((category_right == 1).all(axis=1).sum())
        lines.append(line)
    return lines


def _describe_rows(judgments: Judgments) -> list[Mapping[str, JSON]]:
    """Return each row's numbers; `None` without a verdict."""

    def finite_values(values: Floats) -> list[JSON]:
        return [value if math.isfinite(value) else None for value in values.tolist()]

    return [
        {
            "uid": uid,
            "cluster": int(judgments.clusters[number]),
            "gold": float(judgments.gold[number]),
            "verdicts": finite_values(judgments.first[number]),
            "right": finite_values(judgments.right[number]),
        }
        for number, uid in enumerate(judgments.uids)
    ]
