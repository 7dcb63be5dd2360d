"""Request fields and response formats that an endpoint refuses, learned once per model."""
