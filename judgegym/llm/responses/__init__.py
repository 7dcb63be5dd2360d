"""How a response is read: its choices, its finish reasons, and whether the attempt has succeeded."""
