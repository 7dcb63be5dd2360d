"""The environments for trainers that sample by themselves: the messages of each row, and the rewards of completions."""
