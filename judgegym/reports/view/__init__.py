"""A local page over all runs of a folder."""
