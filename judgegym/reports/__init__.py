"""What is done with finished runs: read them, write their pages, compare and list them."""
