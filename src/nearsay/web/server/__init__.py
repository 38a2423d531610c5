"""The server: access control, background jobs, traffic."""
