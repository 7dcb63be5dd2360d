"""Make a scored group of a row: sample completions with their tokens, judge them, score them."""
