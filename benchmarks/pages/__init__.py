"""What pages of runs cost: writing them, opening them in a browser, and the list of all runs."""
