"""The HTTP client of an OpenAI-compatible endpoint: retries, limits, replicas, cache, usage."""
