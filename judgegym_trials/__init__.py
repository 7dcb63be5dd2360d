"""Trials of judges: audits against labels, attacks, labels by people, and replays of recorded runs.

Code that reads the labels of a run is in `judgegym.reports`.
"""
