"""Benchmark environments."""

if __name__ != "judgegym.eval_environments":  # classes that are imported twice are not the same
    raise ImportError(
        "the package is judgegym.eval_environments: `eval_environments/` is a link to its files",
        name=__name__,
    )
