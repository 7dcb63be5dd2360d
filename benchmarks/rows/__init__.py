"""Many rows through the commands: memory and time by the number of rows, and rows a second beside a plain loop."""
