"""The trainer: batches of the rollout API to new weights, one process for each seed."""
