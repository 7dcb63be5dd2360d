"""Reward model judges: a number for each response from a scalar model behind a server."""
