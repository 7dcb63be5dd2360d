"""Implementation of `evaluate`: rows to samples, metrics and tables."""
