"""Arena-Hard: its settings and rows, and the evaluation of several candidates."""
