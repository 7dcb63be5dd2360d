"""Reward functions for trainers that call Python: through the reward server, or with the judge in this process."""
