"""Checklist judge: judges a submission by each of a list of criteria with points."""
