"""When a failed request to a model is sent again."""
