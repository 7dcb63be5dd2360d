"""All kinds of judges behind one interface.

A task (a prompt with its responses) becomes scores from 0 to 1.
"""
