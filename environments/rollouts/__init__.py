"""A task to a scored group: sampling, tokens, judgments, scores."""
