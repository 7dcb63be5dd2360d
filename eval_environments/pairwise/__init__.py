"""Pairwise judgement: its settings, the verdicts that a policy gives, and what is counted."""
