"""The server: access, limits of connections, background jobs, static files."""
