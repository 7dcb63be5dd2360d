"""Examples to copy; each is run by a test."""
