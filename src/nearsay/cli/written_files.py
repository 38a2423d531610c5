"""Options of commands that write files, and what they print about them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from nearsay.cli.app import count
from nearsay.errors import InputError

Format = Annotated[str | None, typer.Option(help="csv, jsonl, parquet, xmp, label-studio or fiftyone.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
BesidePictures = Annotated[
    bool, typer.Option("--beside-pictures", help="Write XMP sidecars next to the pictures, instead of --out.")
]


def check_out(out: Path | None, format: str | None, beside_pictures: bool) -> None:
    """Sidecars go either into a folder, or next to the pictures."""
    if beside_pictures and (out is not None or format not in (None, "xmp")):
        raise InputError(
            "--beside-pictures writes XMP sidecars (xmp) next to the pictures: leave --out and other formats out."
        )
    if not beside_pictures and (
        (format is None and out is not None and out.suffix.lower() == ".xmp") or (format == "xmp" and out is None)
    ):
        raise InputError(
            "XMP sidecars are one file for each picture: name a folder with --out and --format xmp, or use"
            " --beside-pictures."
        )


def written_files(paths: list[str], out: Path | None) -> str:
    if len(paths) == 1 and out is not None:
        return paths[0]
    if out is not None:
        return f"{count(len(paths), 'file')} in {out}"
    folder = f" in {os.path.commonpath([Path(path).parent for path in paths])}" if paths else ""
    return f"{count(len(paths), 'file')} next to the pictures{folder}"
