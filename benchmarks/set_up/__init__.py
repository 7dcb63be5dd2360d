"""What it costs until the first row: the set-up (`python -m benchmarks.set_up`), and the start of a command."""
