"""Screening for exact search: fast approximate products rule rows out, and error bounds prove that none is missed."""
