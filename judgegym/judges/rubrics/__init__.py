"""Rubric judge: scores an answer on a scale by a rubric."""
