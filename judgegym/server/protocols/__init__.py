"""Protocols of trainers: an adapter for each, from a request body to items and from results to a response body."""
