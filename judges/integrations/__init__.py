"""Python shims for trainers that call a function: over the reward server, or with the judge in process."""
