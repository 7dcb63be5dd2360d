"""Rules: judges that call no endpoint."""
