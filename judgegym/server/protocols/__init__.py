"""Trainers' protocols: each turns a request body into tasks, and results into a response body."""
