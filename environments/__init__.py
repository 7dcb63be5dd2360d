"""Environments: the one loop behind serve, process and evaluate, and the training environments built on it."""
