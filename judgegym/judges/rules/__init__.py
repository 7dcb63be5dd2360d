"""Rules: judges that ask no endpoint."""
