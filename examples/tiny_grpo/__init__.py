"""A tiny policy that learns from judges of this project: `python -m examples.tiny_grpo`."""
