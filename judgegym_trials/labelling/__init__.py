"""`judgegym label`: people label a random sample of a run in a browser."""
