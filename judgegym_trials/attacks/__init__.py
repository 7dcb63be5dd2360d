"""`judgegym attack`: responses that should gain nothing from a judge, and their originals."""
