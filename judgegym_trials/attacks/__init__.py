"""`judgegym attack`: responses that should gain nothing, next to their unattacked twins."""
