"""What all judges share: judgments, calls, votes, delimiters, self-critique, scales."""
