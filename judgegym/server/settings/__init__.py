"""The reward server's settings, and those of each judge that it serves."""
