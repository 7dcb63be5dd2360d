"""`judgegym audit`: accuracy of a judge, what sways it, and whether there are enough rows."""

FAULT = 4
"""The exit code if a check fails."""
