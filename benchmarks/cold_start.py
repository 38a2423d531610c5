"""How long a first answer takes in a fresh process with nothing compiled yet: nearsay's README beside scikit-learn.

python -m benchmarks.cold_start [--tiny]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter

from benchmarks.measuring import Rows, main

IRIS = """
from sklearn.datasets import load_iris
flowers = load_iris()
X, y = flowers.data, flowers.target_names[flowers.target]
query = [[6.3, 2.7, 5.0, 1.7]]
"""
SCRIPTS = {
    "scikit-learn": """
from sklearn.neighbors import KNeighborsClassifier
clf = KNeighborsClassifier(5).fit(X, y)
print(clf.predict(query), clf.predict_proba(query))
""",
    "nearsay": """
import nearsay as ns
clf = ns.NeighborClassifier(5, posterior="rank&votesplit").fit(X, y)
print(clf.predict(query), clf.predict_proba(query), clf.explain(query)[0])
""",
}
ALL_COMPILED = f"""
from nearsay.core import compiling
with compiling.forced(True):
    {SCRIPTS["nearsay"].strip().replace(chr(10), chr(10) + "    ")}
"""


def seconds(script: str) -> tuple[float, float]:
    """Seconds on the clock and of the processor that a script takes, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        before, start = getrusage(RUSAGE_CHILDREN), perf_counter()
        subprocess.run(
            [sys.executable, "-c", IRIS + script],
            env={**os.environ, "NUMBA_CACHE_DIR": cache},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        after = getrusage(RUSAGE_CHILDREN)
        return perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(tiny: bool) -> Rows:
    best = dict.fromkeys(SCRIPTS, (float("inf"), float("inf")))
    for _ in range(1 if tiny else 5):
        for name, script in SCRIPTS.items():
            best[name] = min(best[name], seconds(script))
    if not tiny:
        best["nearsay, everything compiled"] = seconds(ALL_COMPILED)
    peer_wall, peer_cpu = best["scikit-learn"]
    return [
        {
            "script": name,
            "seconds": wall,
            "CPU seconds": cpu,
            "seconds beyond scikit-learn": round(wall - peer_wall, 2),
            "CPU seconds beyond": round(cpu - peer_cpu, 2),
        }
        for name, (wall, cpu) in best.items()
    ]


if __name__ == "__main__":
    main("First answer of a fresh process, nothing compiled", run)
