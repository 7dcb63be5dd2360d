"""Aspect judge: yes/no questions about an answer, each decided by votes."""
