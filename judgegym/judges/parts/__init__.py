"""Judges that are made of judges: a reward of parts, a jury, a cascade."""
