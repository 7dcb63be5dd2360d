"""Watch a training run: a gold judge beside it, monitors of what passes by, alarms. It never changes a reward."""
