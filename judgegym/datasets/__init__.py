"""A data set, judged: its rows with a score on each, and what is selected of them for training."""
