"""Stand-ins for the benchmarks of `serve`: endpoints that cost next to nothing, a trainer, and `serve` as a command."""
