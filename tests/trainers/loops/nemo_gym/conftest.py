"""The versions of NeMo Gym that the tests run with."""

from __future__ import annotations

import pytest

from tests.trainers.loops import trainers
from tests.trainers.loops.install.targets import TARGETS
from tests.trainers.loops.nemo_gym.gym import Gym

VERSIONS = [target for target in TARGETS if target.folder == "nemo_gym"]


@pytest.fixture(params=[pytest.param(target, id=target.name) for target in VERSIONS])
def gym(request: pytest.FixtureRequest) -> Gym:
    """Each version of NeMo Gym; skips the test for one that is not installed."""
    trainers.place_of(request.param.name)
    return Gym(request.param.name, request.param.version)
