"""Scores of a judge in `datasets.map`.

    import judgegym.hf

    judge = judgegym.hf.score(judge="rubric", judge_base_url="http://localhost:8000/v1",
    judge_model_name="the-judge") scored = dataset.map(judge, batched=True, batch_size=256)

Guarantees: a map with the same settings is taken from the cache of `datasets`, and one with other
settings is made again; a copy in another process holds the settings, and no key. With `num_proc=N`,
each of the processes of `map(…, num_proc=N)` has an equal share of the endpoint's limits.

Source: datasets 5.2 (`fingerprint.py`, `arrow_dataset.py`).
"""

from __future__ import annotations

import multiprocessing
import sys

from judgegym.datasets.cluster.batches import Batch, BatchScorer
from judgegym.llm.errors import SettingsError


class score(BatchScorer):
    """A function for `datasets.map(…, batched=True)` that adds a judge's scores."""

    def __init__(self, *, num_proc: int | None = None, **settings: object) -> None:
        """Check the settings.

        Args:
            num_proc: that of `map`; the endpoint's limits are shared out among so many processes.
            settings: those of `judgegym score` for the judge and the columns, by name; `ledger`, a
                directory in which results are kept; `offline=True` for a stand-in.

        Raises:
            SettingsError: a setting is unknown or wrong, or a limit is lower than the number of
                processes.
        """
        super().__init__(settings, parts=num_proc or 1, parts_setting="num_proc")

    def __call__(self, batch: Batch) -> Batch:
        """Score a batch, as `BatchScorer` does.

        Raises:
            SettingsError: `map` runs in several processes, and the settings say nothing of them.
        """
        if self.parts == 1 and _is_child():
            raise SettingsError(
                "num_proc: map runs in several processes, which would each take the endpoint's "
                "whole limits; "
                "give the same number to both: judgegym.hf.score(…, num_proc=4), map(…, num_proc=4)"
            )
        return super().__call__(batch)


def _is_child() -> bool:
    """Return whether this process is of a pool; `datasets` makes its own with `multiprocess`."""
    of_datasets = sys.modules.get("multiprocess")
    pools = (multiprocessing, *([] if of_datasets is None else [of_datasets]))
    return any(pool.parent_process() is not None for pool in pools)
