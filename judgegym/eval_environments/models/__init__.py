"""The models that an evaluation compares: their settings, their endpoints, and where their answers come from."""
