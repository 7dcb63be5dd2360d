"""Lists of criteria with points, by each of which a submission is judged."""
