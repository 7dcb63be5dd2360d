"""Conversations: their turns, how a judge is shown them, and the formats in which they come."""
