"""Requests in batches: the kinds of batch endpoints, and the queue that fills batches and brings back responses."""
