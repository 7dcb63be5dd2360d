"""Reports on finished runs: read, render, compare and list them."""
