"""Read the rows of a data set as tasks: a prompt with its responses."""
