"""Parses an environment's command line, runs its commands, and prints the command that resumes a run."""
