"""What operators see of the server: whether judges answer, metrics, the log, the last judgments."""
