"""Judges on trial: audits against labels, attacks, and labels by people. What reads labels of a run is in `reports`."""
