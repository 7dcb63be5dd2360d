"""Examples of Hypothesis have no time limit: no test asserts a time. Assertions of helpers explain themselves."""

import pytest
from hypothesis import settings

settings.register_profile("judgegym", deadline=None)
settings.load_profile("judgegym")
pytest.register_assert_rewrite("tests.conformance.lab")
