"""Shared by all packages: arrays, settings, validation, threads, lazy compiling, cancellation, the terminal."""
