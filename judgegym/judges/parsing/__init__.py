"""Parsers of judges' texts. A parser returns a value or `None`; it never guesses and never raises."""
