"""Scorers: each maps an item to the cases of one judge, and its judgments to scores from 0 to 1."""
