"""Run every benchmark in this folder, each in a process of its own: ``python -m benchmarks [--tiny]``.

Tiny runs show that each still works, two at a time; others measure, and are alone.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import benchmarks

NOT_BENCHMARKS = {
    "__main__",
    "gpu_class_probabilities",
    "gpu_learning",
    "gpu_measured",
    "gpu_steps",
    "measuring",
    "metric_learn_peer",
    "skmultilearn_peer",
    "two_versions",
}
# The longest of the tiny runs, to begin with.
LONG = ("scale", "page_in_browser", "metric_learning", "page")


def main() -> int:
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name not in NOT_BENCHMARKS]
    tiny = "--tiny" in sys.argv[1:]
    if tiny:
        names.sort(key=lambda name: LONG.index(name) if name in LONG else len(LONG))

    def run(name: str) -> int:
        command = [sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]]
        if not tiny:
            return subprocess.run(command, check=False).returncode
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(done.stdout, flush=True)
        return done.returncode

    with ThreadPoolExecutor(2 if tiny else 1) as pool:
        failed = [name for name, code in zip(names, pool.map(run, names), strict=True) if code]
    if failed:
        print(f"\nFailed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
