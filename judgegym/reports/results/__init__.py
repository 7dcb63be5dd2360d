"""Runs as they lie on disk: settings, metrics, samples and calls of a run directory, whichever environment wrote it."""
