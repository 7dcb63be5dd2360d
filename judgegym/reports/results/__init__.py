"""Read runs from disk: settings, metrics, samples and calls of any run directory."""
