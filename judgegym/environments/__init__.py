"""Environments: the one loop behind serve, process and evaluate, and the training environments built on it."""

import os

if __name__ != "judgegym.environments":  # classes that are imported twice are not the same
    raise ImportError("the package is judgegym.environments: `environments/` is a link to its files", name=__name__)

# transformers is used for tokenizers only: do not warn that PyTorch is missing.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
