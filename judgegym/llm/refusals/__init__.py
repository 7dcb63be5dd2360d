"""What an endpoint refuses of a request, learned once for a model: fields, and forms of answers."""
