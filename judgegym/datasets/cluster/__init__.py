"""Score a data set in several processes: batches for Ray Data and `datasets.map`, Ray actors."""
