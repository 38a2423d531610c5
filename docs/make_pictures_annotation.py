"""Make the pictures of keywords again: python docs/make_pictures_annotation.py (needs the data set corel5k)."""

from __future__ import annotations

from pathlib import Path

from nearsay.errors import DatasetNotFound
from reproduce.annotation.figures import run
from reproduce.annotation.rendering import draw

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    """Draw Figure 1 and the examples as ``python -m reproduce annotation --save`` does."""
    for figure in ("1", "examples"):
        try:
            made = draw(figure, run(figure=figure), IMAGES)
        except DatasetNotFound as missing:
            print(f"Left as they are: annotation-*.png. {missing}")
            return
        print(*made, sep="\n")


if __name__ == "__main__":
    main()
