"""`evaluate`: rows to samples, metrics, tables."""
