"""Environments: the one loop behind serve, process and evaluate, and the training environments built on it."""

import os

# transformers is used for tokenizers only: do not warn that PyTorch is missing.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
