"""Render the page of a run: `report.html` of an evaluation, or the page of groups of `process`."""
