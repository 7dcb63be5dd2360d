"""Listwise judge: scores all answers of a group in one call."""
