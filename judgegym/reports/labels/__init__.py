"""Labels by people: the file that holds them, and what they correct."""
