"""Arena-Hard: an answer against a baseline, in both orders."""
