"""Labeled rows: from files, to files, and the papers' data sets by name."""

from nearsay.data.datasets import load_dataset
from nearsay.data.files import read_images, read_rows, write_rows
from nearsay.data.rows import LabeledRows

__all__ = ["LabeledRows", "load_dataset", "read_images", "read_rows", "write_rows"]
