"""Judges: text in, judgment out."""

if __name__ != "judgegym.judges":  # classes that are imported twice are not the same
    raise ImportError("the package is judgegym.judges: `judges/` is a link to its files", name=__name__)
