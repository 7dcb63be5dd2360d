"""The server of the command: connections, and the service behind aiohttp."""
