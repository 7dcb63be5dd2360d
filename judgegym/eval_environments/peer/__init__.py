"""Peer evaluation: models score each other."""
