"""`judgegym score --plan`: what a run would ask, and what that would cost, before the first call."""
