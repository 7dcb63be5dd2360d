"""The page of a run: `report.html` of an evaluation, and the page of the groups of `process`."""
