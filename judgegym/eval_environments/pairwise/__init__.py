"""Pairwise judgement: settings, verdicts and metrics."""
