"""`judgegym judge`: show, check and export cards of judges, and import judges of other tools."""
