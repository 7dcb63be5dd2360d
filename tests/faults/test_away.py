"""An endpoint that is away is waited for: no row and no group is lost, nothing that was answered is asked again.

`python -m benchmarks.soak.away` does the same for a minute. For a rollout API that is away see
`tests/core/serve/test_api_flaps.py`.
"""

from __future__ import annotations

import pytest

from judgegym.offline.faults import Outage
from tests.conformance.subjects import Verb
from tests.faults.bench import Bench, Outcome
from tests.faults.test_endpoints import each_verb, nothing_is_lost


@each_verb
@pytest.mark.parametrize("side", ["policy", "judge"])
def test_endpoint_that_is_away_is_waited_for(
    bench: Bench, verb: Verb, side: str, undisturbed: Outcome
) -> None:
    """What was in flight is a failed try, and so is a connection that was reset while it was idle; no more is."""
    away = [Outage(getattr(undisturbed, side).requests // 2 + 1, 0.4)]
    outcome = bench.run(
        verb, "--env.judge_max_retries=3", "--env.max_retries=3", **{side: {"away": away}}
    )
    nothing_is_lost(outcome, undisturbed)
