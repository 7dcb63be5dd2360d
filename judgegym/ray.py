"""Scores of a judge in Ray Data: a callable class for `map_batches`, an actor of which has one client.

    from judgegym.ray import score

    scored = dataset.map_batches(
        score, **score.arguments(judge="rubric", judge_base_url="http://judge:8000/v1", actors=4,
        batch_size=64)
    )

Guarantees: the endpoint's limits (`judge_max_concurrency`, `judge_requests_per_minute`,
`judge_tokens_per_minute`) hold for all actors together, since each has an equal share of them; of a
pool that grows, the most actors count. An actor that dies is started again by Ray once its process
is dead, and with it its requests; it judges nothing again that its
ledger or the cache has. No key is in a plan: each actor reads it from the environment variable that
`judge_api_key_env` names.

Source: ray 2.60 (`data/_internal/execution/operators/actor_pool_map_operator.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judgegym.datasets.cluster.batches import BatchScorer
from judgegym.judges.config.extras import report_missing_extra

_BATCH_SIZE = 64


class score(BatchScorer):
    """Adds a judge's scores to the batches of Ray Data, whatever their format."""

    def __init__(self, *, actors: int = 1, **settings: object) -> None:
        """Check the settings; to be called by Ray, in the actor.

        Args:
            actors: the most actors that score at the same time, each of which has an equal share of
                the limits.
            settings: those of `judgegym score` for the judge and the columns, by name; `ledger`, a
                directory in which results are kept; `offline=True` for a stand-in.

        Raises:
            SettingsError: a setting is unknown or wrong, or a limit is lower than the number of
                actors.
        """
        super().__init__(settings, parts=actors, parts_setting="actors")

    @classmethod
    def arguments(
        cls, *, actors: int | tuple[int, int] = 1, batch_size: int = _BATCH_SIZE, **settings: object
    ) -> Mapping[str, Any]:
        """Return the arguments of `map_batches`, so that the number of actors and their shares cannot differ.

        Args:
            actors: how many; or the fewest and the most, between which Ray changes their number.
            batch_size: rows that an actor judges at once.
            settings: see `__init__`.

        Returns:
            `fn_constructor_kwargs`, `compute`, `batch_size`, `batch_format`, and what Ray is to do
            when an actor dies.

        Raises:
            SettingsError: a setting is unknown or wrong, or a limit is lower than the number of
                actors.
            MissingExtraError: Ray Data is not installed.
        """
        with report_missing_extra("ray"):
            from ray.data import ActorPoolStrategy  # late: the extra `ray`
        fewest, most = actors if isinstance(actors, tuple) else (actors, actors)
        checked = BatchScorer(settings, parts=most, parts_setting="actors")
        return {
            "fn_constructor_kwargs": {"actors": most, **checked.settings.to_values()},
            "compute": ActorPoolStrategy(min_size=fewest, max_size=most),
            "batch_size": batch_size,
            "batch_format": "pyarrow",  # Ray's default makes pickled objects of the lists in other columns
            "max_restarts": -1,  # whoever is preempted comes back, however often
            "max_task_retries": -1,
        }
