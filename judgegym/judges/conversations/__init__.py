"""Conversations: their turns, how a judge is shown them, and their input formats."""
