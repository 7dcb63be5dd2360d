"""Fixtures of the tests of data sets."""

from tests.chromium import browser  # noqa: F401  # a fixture: tests name it as an argument
