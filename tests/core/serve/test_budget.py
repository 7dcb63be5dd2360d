"""A budget of `serve`: whole groups within it, into the real rollout API, and what goes on after it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from judgegym.llm.errors import BudgetError
from tests.arena import Arena
from tests.billing import LONGEST, PRICES, Provider
from tests.serving import serve
from tests.trainer import training


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_serve_sends_whole_groups_within_a_random_budget_and_goes_on(
    tmp_path: Path, seed: int
) -> None:
    arena, provider = Arena(tmp_path).rows(8), Provider(seed)
    budget = Random(f"serve {seed}").uniform(0.5, 3.0)
    flags = [
        *PRICES,
        f"--env.train_max_tokens={LONGEST}",
        f"--env.data_path_to_save_groups={tmp_path / 'groups.jsonl'}",
    ]
    flags += ["--env.ensure_scores_are_not_same=False", "--env.total_steps=4"]
    async with training(8) as trainer:
        taking = asyncio.create_task(trainer.take(4))
        limited = (*flags, f"--env.budget_usd={budget}")
        with pytest.raises(BudgetError, match="is spent"):
            async with serve(
                arena, trainer.url, *limited, policy=provider, judge=provider
            ) as served:
                await served.ended()
        assert provider.usd <= budget
        async with serve(
            arena, trainer.url, *flags, "--resume", policy=provider, judge=provider
        ) as served:
            batches = await taking
            await served.ended()
    groups = [group for batch in batches for group in batch]
    assert len(groups) == 8 and all(len(group["scores"]) == 4 for group in groups)
