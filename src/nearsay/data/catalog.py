"""The catalog of data sets and taxonomies: their files, and the functions that read them.

``load_dataset``, ``load_taxonomy`` and ``nearsay doctor`` all read these tables.
A new data set is one function and one entry.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearsay.errors import DatasetNotFound, unknown_name

LEAF_FILES = {"shape": "data_Sha_64.txt", "texture": "data_Tex_64.txt", "margin": "data_Mar_64.txt"}
MNIST_FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
COREL5K_FILES = (
    "images",
    "corel5k_words.txt",
    *(f"corel5k_{part}_{file}" for part in ("train", "test") for file in ("list.txt", "annot.hvecs")),
    "embeddings.npz",
)

# Tables whose last column is the class, as name.csv in one folder.
SMALL_TABLES = {
    "glass": '"Glass Identification" (German, 1987)',
    "satimage": '"Statlog (Landsat Satellite)" (Srinivasan, 1993)',
    "segment": '"Image Segmentation" (Vision Group, University of Massachusetts, 1990)',
    "vehicle": '"Statlog (Vehicle Silhouettes)" (Mowforth, Shepherd, 1987)',
    "vowel": '"Connectionist Bench (Vowel Recognition)" (Deterding, Niranjan, Robinson)',
    "yeast": '"Yeast" (Nakai, 1996)',
}

# What comes with nearsay.
SHIPPED_DATA = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """A data set or a taxonomy.

    reader : ``module:function``, imported when it is called: listing the table imports nothing. It takes the folder in
        which the files lie (a taxonomy: its one file), then the options.
    kind : what it gives: labeled rows, annotated rows, annotated images, emoji pictures or a taxonomy.
    folder : where the files lie, below one of ``data_folders()``.
    files : what must lie there; none for what comes with scikit-learn.
    source : where they come from, in a sentence.
    shipped : whether the files come with nearsay itself, and are looked for there only.
    arguments : further arguments of the reader.
    """

    reader: str
    kind: str = "labeled rows"
    folder: str = ""
    files: tuple[str, ...] = ()
    source: str = ""
    shipped: bool = False
    arguments: tuple[str, ...] = ()

    @property
    def read(self) -> Any:
        return pkgutil.resolve_name(self.reader)

    def find(self) -> Path | None:
        """The first place that holds every file, or None; any place will do where no file is needed."""
        return next((place for place in self._places() if all((place / file).exists() for file in self.files)), None)

    def place(self, what: str) -> Path:
        """The same; an error lists the folders that were searched for ``what``, and the files that belong there."""
        folder = self.find()
        if folder is not None:
            return folder
        places = self._places()
        looked = "; ".join(f"{place} ({_lacking(place, self.files)})" for place in places)
        unset = " (NEARSAY_DATA, which can name another place, is not set.)" if len(places) == 1 else ""
        raise DatasetNotFound(
            f"{what} is not on this machine. Looked in: {looked}.{unset} {self.source}"
            f" Put {', '.join(self.files)} into a folder {self.folder!r} at one of these places."
        )

    def _places(self) -> list[Path]:
        return [folder / self.folder for folder in ([SHIPPED_DATA] if self.shipped else data_folders())]


def data_folders() -> list[Path]:
    """Where data sets are looked for, in this order: NEARSAY_DATA if it is set, then the user's cache."""
    named = os.environ.get("NEARSAY_DATA", "")
    return [*([Path(named)] if named else []), _user_cache()]


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "nearsay"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "nearsay"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearsay"


def _lacking(place: Path, files: Iterable[str]) -> str:
    if not place.is_dir():
        return "no folder"
    return "lacks " + ", ".join(file for file in files if not (place / file).exists())


DATASETS = {
    **{
        name: Entry("nearsay.data.datasets:read_from_sklearn", arguments=(name,))
        for name in ("iris", "wine", "breast_cancer", "digits")
    },
    "emoji": Entry(
        "nearsay.data.emoji_pictures:read_emoji",
        kind="emoji pictures",
        folder="emoji",
        files=("emoji.csv", "noto.png", "twemoji.png"),
        source="It comes with nearsay: install it again.",
        shipped=True,
    ),
    "seeds": Entry(
        "nearsay.data.datasets:read_seeds",
        folder="seeds",
        files=("seeds_dataset.txt",),
        source='It is "seeds" in the UCI Machine Learning Repository (Charytanowicz, Niewczas and others, 2010).',
    ),
    "leaves": Entry(
        "nearsay.data.datasets:read_leaves",
        folder="leaves",
        files=tuple(LEAF_FILES.values()),
        source='It is "One-hundred plant species leaves" in the UCI Machine Learning Repository (Mallah, Cope, Orwell,'
        " 2013).",
    ),
    "mnist": Entry(
        "nearsay.data.datasets:read_mnist",
        folder="mnist",
        files=tuple(file for pair in MNIST_FILES.values() for file in pair),
        source="It is the MNIST database of handwritten digits (LeCun, Cortes, Burges): four gzipped idx files.",
    ),
    "tin200": Entry(
        "nearsay.data.datasets:read_tin200",
        folder="tin200",
        files=("embeddings.npz", "classes.csv"),
        source="It is made from Tiny ImageNet (Stanford, CS231n): EfficientNet-Lite0 features, brought to 256 columns"
        " by a PCA of the training rows, as X_train, y_train, X_test, y_test; classes.csv has columns index,"
        " wnid, words.",
    ),
    "emotions": Entry(
        "nearsay.data.annotated_rows:read_emotions",
        kind="annotated rows",
        folder="small",
        files=("emotions.mat",),
        source='It is "emotions", music with moods (Trohidis, Tsoumakas, Kalliris, Vlahavas, 2008), saved by MATLAB as'
        " X and Y.",
    ),
    "medical": Entry(
        "nearsay.data.annotated_rows:read_medical",
        kind="annotated rows",
        folder="small",
        files=("medical.mat",),
        source='It is "medical", words of radiology reports with codes (Pestian and others, 2007), saved by MATLAB as'
        " X and Y.",
    ),
    "corel5k": Entry(
        "nearsay.data.corel5k:read_corel5k",
        kind="annotated images",
        folder="corel5k",
        files=COREL5K_FILES,
        source="It is Corel5K (Duygulu, Barnard, de Freitas, Forsyth, 2002) with the lists and annotations of"
        " Guillaumin et al. (2009).",
    ),
}
DATASETS |= {
    name: Entry(
        "nearsay.data.datasets:read_small_table",
        arguments=(name,),
        folder="small",
        files=(f"{name}.csv",),
        source=f"It is {title} in the UCI Machine Learning Repository, as a table whose last column is the class.",
    )
    for name, title in SMALL_TABLES.items()
}

TAXONOMIES = {
    "emoji": Entry(
        "nearsay.taxonomy.named:read_emoji",
        kind="taxonomy",
        folder="emoji",
        files=("emoji.csv",),
        source="It comes with nearsay: install it again.",
        shipped=True,
    ),
    "emoji_characters": Entry(
        "nearsay.taxonomy.named:read_emoji_characters",
        kind="taxonomy",
        folder="emoji",
        files=("emoji.csv",),
        source="It comes with nearsay: install it again.",
        shipped=True,
    ),
    "ilsvrc65": Entry(
        "nearsay.taxonomy.named:read_ilsvrc65",
        kind="taxonomy",
        folder="ilsvrc65",
        files=("ilsvrc65_hierarchy.json",),
        source="It is the tree of ILSVRC65 (Deng, Krause, Berg, Fei-Fei, 2012), as a list of nodes with words and"
        " children.",
    ),
    "tin200": Entry(
        "nearsay.taxonomy.named:read_tin200",
        kind="taxonomy",
        folder="tin200",
        files=("taxonomy.csv",),
        source="It is the part of WordNet above the classes of Tiny ImageNet, as lines parent,child of WordNet ids;"
        " names.csv (node, words) in the same folder has their names in WordNet.",
    ),
    "inat21": Entry(
        "nearsay.taxonomy.taxonomy:Taxonomy.from_csv",
        kind="taxonomy",
        folder="taxonomies",
        files=("inat21.csv",),
        source="It is the tree of the iNaturalist 2021 competition, as lines parent,child.",
    ),
}


def split_parts(split: str, known: Iterable[str]) -> list[str]:
    """The parts that a split names, all of them for "all".

    >>> split_parts("all", ("train", "test"))
    ['train', 'test']
    """
    if split == "all":
        return list(known)
    if split not in known:
        raise unknown_name("split", split, [*known, "all"])
    return [split]
