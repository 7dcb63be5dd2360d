"""`judgegym select`: select the best responses, or pairs, and write them for a trainer."""
