"""Requests in batches: the batch endpoints, and the queue that fills and follows batches."""
