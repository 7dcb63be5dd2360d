"""Judges for scripts and notebooks."""
