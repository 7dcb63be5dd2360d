"""`judgegym audit`: what a judge gets right, what sways it, and whether the rows are enough to tell."""

FAULT = 4
"""The exit code if a check fails."""
