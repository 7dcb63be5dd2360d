"""Answers of a model: those that several calls share, stored or on their way, and those of several requests."""
