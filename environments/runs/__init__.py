"""What is on disk: run directories."""
