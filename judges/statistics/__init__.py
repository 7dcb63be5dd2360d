"""Agreement and bootstrap intervals."""
