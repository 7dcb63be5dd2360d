"""`serve` and `process`: judged groups to a trainer or a file."""
