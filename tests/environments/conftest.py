"""Fixtures of all rooms of `environments`."""

from tests.chromium import browser  # noqa: F401  # a fixture: tests name it as an argument
