"""How much is asked of an endpoint: requests in flight, requests and tokens a minute, and what a run may cost."""
