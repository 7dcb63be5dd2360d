"""A data set judged in several processes: batches for Ray Data and `datasets.map`, and the actors of `--ray`."""
