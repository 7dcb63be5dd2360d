"""Protocols of trainers: an adapter for each, from a request body to tasks and from results to a response body."""
