"""Neighbors among rows that change: one query scans all rows, leave-one-out tables are kept up to date."""
