"""How much is asked of an endpoint (requests in flight, a minute, what a run may cost), and who is admitted to it."""
