"""Juries and cascades from recorded runs: `judgegym replay`. Nobody is asked."""
