"""Judges: text in, judgment out."""
