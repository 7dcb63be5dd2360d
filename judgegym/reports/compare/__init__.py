"""Runs compared on the rows that they share."""
