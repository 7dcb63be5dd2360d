"""The policy: a model from scratch, its sampler, and the endpoint that serves samples."""
