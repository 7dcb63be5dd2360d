"""Scored groups of rows: sampled completions with their tokens, judgments and rewards."""
