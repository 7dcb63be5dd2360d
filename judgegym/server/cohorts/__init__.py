"""Cohorts: responses to one prompt that trainers send one by one, judged together."""
