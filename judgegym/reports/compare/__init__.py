"""Compare runs on the rows that they share."""
