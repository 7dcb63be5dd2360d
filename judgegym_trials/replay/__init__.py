"""`judgegym replay`: juries and cascades from recorded runs, without calls."""
