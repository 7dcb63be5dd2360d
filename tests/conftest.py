"""Hypothesis without its time limit for each example: no test here asserts a time."""

from hypothesis import settings

settings.register_profile("judgegym", deadline=None)
settings.load_profile("judgegym")
