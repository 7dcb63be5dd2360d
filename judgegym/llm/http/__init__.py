"""How one request is sent over HTTP: the pool of connections, the exchange, and how many may be in flight."""
