"""Neighbors among rows in shards: on one machine or by the workers of a Dask cluster."""
