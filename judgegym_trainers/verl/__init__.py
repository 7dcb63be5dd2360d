"""Rewards for verl: a reward function, and a reward manager and agent loop that score groups.

`function.py` is called for one sample, without its prompt and its group; `manager.py` sees both,
gathers the samples of a prompt from all of verl's reward workers, and judges them together.
Importing this package does not import verl.
"""

from judgegym_trainers.verl.function import close, compute_score, compute_score_sync

__all__ = ["close", "compute_score", "compute_score_sync"]
