"""What evaluate, score, process and serve share: settings, run directory, records, metrics, terminal."""
