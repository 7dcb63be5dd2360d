"""Peer evaluation: models that score each other."""
