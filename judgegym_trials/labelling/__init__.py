"""`judgegym label`: people label a random sample of a run's rows in a browser."""
