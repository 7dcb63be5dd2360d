"""Scores of a trainer's texts: from a reward server over HTTP, or from a judge in this process."""
