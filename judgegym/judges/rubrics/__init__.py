"""An answer on a scale by a rubric."""
