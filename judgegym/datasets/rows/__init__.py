"""The rows of a data set, as what is judged: a prompt with its responses."""
