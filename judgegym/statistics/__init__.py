"""Agreement statistics and bootstrap intervals."""
