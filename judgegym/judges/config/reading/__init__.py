"""Sources of settings, read: their values, what these choose, and the help about them."""
