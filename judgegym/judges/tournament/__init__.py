"""The tournament: pairwise games among the answers of a group, and their strengths from all of them."""
