"""`judgegym score`: judge the rows of a data set."""
