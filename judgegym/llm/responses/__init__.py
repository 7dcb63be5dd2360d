"""Parsing of responses: choices, finish reasons, and the outcome of an attempt."""
