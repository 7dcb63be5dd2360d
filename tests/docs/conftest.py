from functools import cache

import pytest

from tests.docs.runs import NEEDS, Finished, Runs, finished


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs by their names in `CONFIGURED`, each made once."""
    folder = tmp_path_factory.mktemp("runs")

    @cache
    def made(name: str) -> Finished:
        if name in NEEDS:
            made(NEEDS[name])
        return finished(name, folder)

    return made
