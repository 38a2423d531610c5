"""Triton kernels of the search on a GPU. Imported on first use only."""
