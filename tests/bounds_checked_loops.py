"""That the tests before this file called every compiled loop: ``test_hard_rows.py`` runs it with bounds checked.

It is named last, and ``conftest.py`` keeps it there: loops that no test has called by then were not checked.
"""

from __future__ import annotations

import importlib
import os
import pkgutil

import pytest

import nearsay
from nearsay.core.compiling import Loop
from nearsay.search.screening.tiles.tile_families import ANY, tile

ONLY_IN_PLAIN_TILES = {"nearsay.search.screening.tiles.matrix_tile_kernels._multiply_by_loop"}


@pytest.mark.parametrize("package", ["nearsay.search.", "nearsay.neighbors.by_class.", "nearsay."])
def test_every_loop_ran_with_its_bounds_checked(package):
    assert os.environ["NUMBA_BOUNDSCHECK"] == "1"
    assert "\n".join(sorted(unused_loops(package))) == ""


def unused_loops(prefix: str) -> set[str]:
    """Compiled loops of modules whose names begin so, that nothing has called in this process."""
    unused = set()
    for module in pkgutil.walk_packages(nearsay.__path__, "nearsay."):
        if module.name.startswith(prefix) and module.name.endswith("_kernels") and ".gpu." not in module.name:
            for name, loop in vars(importlib.import_module(module.name)).items():
                ran = isinstance(loop, Loop) and loop._machine_code is not None and loop._machine_code.signatures
                if isinstance(loop, Loop) and loop.__wrapped__.__module__ == module.name and not ran:
                    unused.add(f"{module.name}.{name}")
    return unused if tile() is ANY else unused - ONLY_IN_PLAIN_TILES
