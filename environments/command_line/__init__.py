"""From the words of a command line to an environment's settings, and back to the command that resumes."""
