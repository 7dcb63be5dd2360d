"""The command `judgegym score` with a judge whose ratings stand in the responses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import serving
from tests.core.datasets.scoring import Scoring, by_points, rated


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Scoring]:
    """The command; its judge gives as many points as a response says."""
    with serving(rated(by_points)) as judge:
        yield Scoring(tmp_path, judge)
