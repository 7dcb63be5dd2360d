"""The page of a run that trains: live in `judgegym view`, or one file when it is over."""
