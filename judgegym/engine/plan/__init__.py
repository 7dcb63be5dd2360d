"""A plan (`--plan`): the run's own judge and policy go through a sample of its rows, and nobody is asked."""
