"""Juries and cascades from recorded runs: `judgegym cascade` and `judgegym replay`. Nobody is asked."""
