"""Requests over HTTP: the connection pool, the exchange, and the limits on requests."""
