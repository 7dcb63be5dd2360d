"""Command line of an environment: parsing, commands, and the printed command that resumes a run."""
