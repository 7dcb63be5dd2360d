"""Shared by all commands: settings, run directory, records, metrics, terminal."""
