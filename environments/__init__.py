"""Environments: the one loop behind serve, process and evaluate, and the training environments built on it."""

import os

# Atropos imports transformers for tokenizers alone; that there is no PyTorch beside it is nothing to warn of.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
