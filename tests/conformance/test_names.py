"""What metrics make of names from the data: each category has a number of its own, whatever it is called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from judgegym.judges.core.naming import MetricNames
from tests.conformance.lab import opened
from tests.conformance.subjects import SUBJECTS, Row, Subject, uids

NAMES = ("C", "C++", "C#", "c", "CI low", "Cluster C")
"""A category for each row. Some differ in what no metric's name can hold, some meet names of ours."""
_STEMS = ("percent_correct", "winrate", "winrate_cluster", "mean_reward", "mean_score_category")

WITH_CATEGORIES = [
    subject
    for subject in SUBJECTS
    if subject.title not in ("arena_hard-candidates", "example-constitution")
]


def _named(subject: Subject) -> Subject:
    def row(uid: str) -> Row:
        name = NAMES[uids().index(uid)]
        found = {**subject.row(uid), "category": name, "cluster": name}
        return (
            {**found, "subset": name, "chosen": found["chosen"][:1]} if "subset" in found else found
        )

    return replace(subject, row=row)


@pytest.mark.parametrize("subject", WITH_CATEGORIES, ids=lambda subject: subject.title)
def test_each_category_has_a_number_of_its_own(
    subject: Subject, tmp_path: Path, stand_in_url: str
) -> None:
    with opened(_named(subject), tmp_path, stand_in_url) as lab:
        files = lab.finished()
    own: dict[str, list[tuple[float, float]]] = {}
    for sample in files.samples:
        own.setdefault(sample["category"], []).append(
            (sample["headline"]["total"], sample["headline"]["weight"])
        )
    names = MetricNames(own)
    expected = {
        names(name): sum(t for t, _ in rows) / sum(w for _, w in rows) for name, rows in own.items()
    }
    assert len(expected) == len(own)
    written = {metric.removeprefix("eval/"): value for metric, value in files.metrics.items()}
    stems = [stem for stem in _STEMS if any(f"{stem}_{part}" in written for part in expected)]
    assert stems
    for stem in stems:
        assert {part: written[f"{stem}_{part}"] for part in expected} == pytest.approx(expected)
