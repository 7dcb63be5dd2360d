"""`judgegym audit`: a judge's accuracy and biases, and whether the rows are enough to tell."""

FAULT = 4
"""Exit code if a check fails."""
