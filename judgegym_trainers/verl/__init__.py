"""Rewards for verl: a reward function, a reward manager for groups, and an agent loop.

`function.py` is called for one sample, without its prompt and its group. `manager.py` sees both,
gathers the samples of a prompt from all of verl's reward workers, and judges them together.
`loop.py` masks samples whose judge failed. Importing this package does not import verl.
"""

from judgegym_trainers.verl.function import close, compute_score, compute_score_sync

__all__ = ["close", "compute_score", "compute_score_sync"]
