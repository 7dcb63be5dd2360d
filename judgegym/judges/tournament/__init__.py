"""Tournament judge: games between pairs of a group's answers, and their strengths."""
