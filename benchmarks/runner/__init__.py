"""What `python -m benchmarks` is made of: a script in its own process, the machine's load, the table."""
