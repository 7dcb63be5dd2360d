"""`judgegym replay`: juries and cascades from recorded runs, without any call."""
