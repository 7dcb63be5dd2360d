"""Rolls out groups with the cookbook's `do_group_rollout`, each in turn, and prints their rewards and advantages.

Arguments: by environment, its settings and, by row, the texts of the policy.
"""

import asyncio
import json
import pickle
import sys

from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.exceptions import AllTrajectoriesFailedError
from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.tokenizer_utils import get_tokenizer

from judgegym_trainers.single_turn import EnvironmentSource
from judgegym_trainers.tinker import (
    EnvironmentGroupBuilder,
    Rollouts,
)

TOKENIZER = "judgegym/environments/rollouts/tokenizers/bytes"


class Policy(TokenCompleter):
    """Says one text after the other."""

    def __init__(self, texts):
        self.texts = iter(texts)

    async def __call__(self, model_input, stop, *, max_tokens=None):
        tokens = get_tokenizer(TOKENIZER).encode(
            f" {next(self.texts)}{stop[0]}", add_special_tokens=False
        )
        return TokensWithLogprobs(tokens, [-1.0] * len(tokens))


async def rolled_out(source, uid, texts):
    builder = EnvironmentGroupBuilder(
        Rollouts(len(texts), "role_colon", TOKENIZER), uid, (), source
    )
    try:
        group = await do_group_rollout(pickle.loads(pickle.dumps(builder)), Policy(texts))
    except AllTrajectoriesFailedError as error:
        return {"skipped": str(error)}
    advantages = compute_advantages([group])
    data, _ = assemble_training_data([group], advantages)
    return {
        "rewards": group.get_total_rewards(),
        "metrics": group.metrics_G,
        "advantages": advantages[0].tolist(),
        "in_data": [datum.loss_fn_inputs["advantages"].to_torch()[-1].item() for datum in data],
        "logs": [trajectory.transitions[-1].logs for trajectory in group.trajectories_G],
    }


async def main():
    found = {}
    for name, (settings, rows) in json.loads(sys.argv[1]).items():
        source = EnvironmentSource.from_settings(name, settings, offline=True)
        found[name] = {uid: await rolled_out(source, uid, texts) for uid, texts in rows.items()}
    print(json.dumps(found))


asyncio.run(main())
