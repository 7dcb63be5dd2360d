"""Retries of requests: when, after which pause, and accounts for which waiting cannot help."""
