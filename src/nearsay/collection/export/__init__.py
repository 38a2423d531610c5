"""Answers and items for other programs: tables, XMP sidecars, Label Studio, FiftyOne."""
