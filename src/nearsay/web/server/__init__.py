"""The server: access control, background jobs, static files."""
