"""Judges from prompt files: a text with placeholders, a scale, and where the verdict stands in the judge's reply."""
