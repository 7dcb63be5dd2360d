"""Answers that several calls share: stored ones, and those on their way."""
