"""Promises by simulation: worlds whose truth is known, so that every promise made in them can be checked."""
