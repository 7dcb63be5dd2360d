"""Serve a local page over all runs of a folder (`judgegym view`)."""
