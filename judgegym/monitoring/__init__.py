"""Monitoring of a training run: gold judge, monitors and alarms; it never changes a reward."""
