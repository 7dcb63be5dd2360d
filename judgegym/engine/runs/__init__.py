"""Run directories on disk, and the guard that ends a run in which nothing succeeds."""
