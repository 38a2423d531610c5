"""Readers and writers of tables: text (csv, tsv), parquet, and numpy arrays."""
