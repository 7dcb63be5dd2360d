"""`judgegym score`: a score on each row of a data set."""
