"""A text that rich would change, if it were taken for its markup."""

ODD = ":100: [red]x[/red] \\[b] 数学 [[A>B]]"
