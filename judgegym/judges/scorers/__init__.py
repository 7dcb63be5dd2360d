"""All kinds of judges behind one face: a task (a prompt with its responses) becomes scores from 0 to 1."""
