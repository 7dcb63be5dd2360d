"""Settings: where they come from, and those that every judge has."""
