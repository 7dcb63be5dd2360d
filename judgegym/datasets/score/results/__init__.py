"""What a run of `judgegym score` has come to: metrics, the file that holds them, and what the command prints."""
