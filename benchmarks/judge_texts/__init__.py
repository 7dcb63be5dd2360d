"""Generated judges' texts through every parser: no exception, and no verdict that is not in the text."""
