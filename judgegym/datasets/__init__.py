"""Judge the rows of a data set, and select the best responses for training."""
