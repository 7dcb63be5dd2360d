"""Judges that are scalar reward models behind a server: a number for each response, without a text."""
