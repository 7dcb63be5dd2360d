"""Judges on trial: audits against labels, attacks, and human labels.

Readers of a run's labels are in `reports`.
"""
