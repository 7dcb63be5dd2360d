from pathlib import Path

import pytest

from tests.arena import Arena


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    """Six rows, two of each category."""
    return Arena(tmp_path).rows(6)
