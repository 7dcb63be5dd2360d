"""Implementation of `serve` and `process`: judged groups for a trainer or a file."""
