"""`judgegym attack`: responses that should gain nothing from a judge, beside their unattacked twins."""
