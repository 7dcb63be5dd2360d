"""What judging costs with the frameworks that do it, too."""
