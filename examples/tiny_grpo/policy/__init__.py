"""The policy: a model from scratch, what samples from it, and the endpoint that serves the samples."""
