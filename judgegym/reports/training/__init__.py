"""The page of a training run: live in `judgegym view`, or one file at its end."""
