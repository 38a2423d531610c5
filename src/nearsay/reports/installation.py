"""The installation: versions, threads, optional packages, data sets."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from typing import Any

from nearsay import __version__
from nearsay.core.parallel import thread_count
from nearsay.data.catalog import DATASETS, TAXONOMIES, Entry, data_folders
from nearsay.search.gpu.gpu_search import gpu_info
from nearsay.search.screening.products import fastest_products, product_seconds
from nearsay.search.screening.tiles import tile_families

# Extras that only combine others, or are for developers.
NOT_A_CAPABILITY = ("all", "dev", "site")
MEASURED_COLUMNS = 128
WITH_SCIKIT_LEARN = "comes with scikit-learn"


def describe_installation() -> dict[str, Any]:
    """Versions, cores and threads, kinds of matrix products, extras and data sets, as one plain dict.

    >>> sorted(describe_installation())
    ['blas', 'cores', 'data_sets', 'extras', 'gpu', 'nearsay', 'packages', 'platform', 'products', 'python', 'threads']
    """
    needed = requirements()
    return {
        "nearsay": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": thread_count(),
        "blas": _blas(),
        "products": describe_products(),
        "gpu": gpu_info(),
        "packages": {package: installed_version(package) for package in needed.pop("")},
        "extras": {
            extra: {package: installed_version(package) for package in packages}
            for extra, packages in sorted(needed.items())
            if extra not in NOT_A_CAPABILITY
        },
        "data_sets": _data_sets(),
    }


def describe_products() -> dict[str, Any]:
    """The kinds of matrix products for exact search, their times on this machine, and which is used.

    >>> sorted(describe_products())
    ['microseconds', 'serves', 'tile', 'why']
    """
    seconds = product_seconds(MEASURED_COLUMNS)
    tile = tile_families.tile().name
    fastest = "int8" if fastest_products(MEASURED_COLUMNS).kept_bytes else "float32"
    forced = os.environ.get(tile_families.FORCE)
    why = f"{tile_families.FORCE}={forced}" if forced else tile_families.why_no_tile()
    return {
        "serves": fastest,
        "tile": tile,
        "why": why or "measured",
        "microseconds": {kind: round(1e6 * taken, 1) for kind, taken in seconds.items()},
    }


def requirements() -> dict[str, list[str]]:
    """The packages nearsay needs (under "") and those of each extra, from its own metadata.

    Empty if nearsay is not installed, only on the path.

    >>> "numpy" in requirements()[""], requirements()["faiss"]
    (True, ['faiss-cpu'])
    """
    needed: dict[str, list[str]] = {"": []}
    try:
        lines = metadata.requires("nearsay") or []
    except metadata.PackageNotFoundError:
        lines = []
    for line in lines:
        package = re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]
        extra = re.search(r"""extra == ['"]([^'"]+)""", line)
        needed.setdefault(extra[1] if extra else "", []).append(package)
    return needed


def installed_version(package: str) -> str | None:
    """The version of an installed package, or None.

    >>> installed_version("no-such-package") is None
    True
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _blas() -> list[dict[str, Any]]:
    """The BLAS libraries in use; scipy brings its own, so there can be two."""
    import scipy.linalg  # noqa: F401  (a library is listed only once it is loaded)
    from threadpoolctl import threadpool_info

    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return [{key: library[key] for key in ("internal_api", "version", "num_threads")} for library in libraries]


def _data_sets() -> dict[str, Any]:
    """The folders that are searched, and the path of each data set and taxonomy; None for a missing one."""
    return {
        "looked_in": [str(folder) for folder in data_folders()],
        "found": {name: _place(entry) for name, entry in sorted(DATASETS.items())},
        "taxonomies": {name: _place(entry) for name, entry in sorted(TAXONOMIES.items())},
    }


def _place(entry: Entry) -> str | None:
    if not entry.files:
        return WITH_SCIKIT_LEARN
    place = entry.find()
    return None if place is None else str(place)
