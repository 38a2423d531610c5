"""Run every benchmark in this folder, each in a process of its own: ``python -m benchmarks [--tiny]``."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

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


def main() -> int:
    failed = []
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if module.name not in NOT_BENCHMARKS:
            done = subprocess.run([sys.executable, "-m", f"benchmarks.{module.name}", *sys.argv[1:]], check=False)
            if done.returncode:
                failed.append(module.name)
    if failed:
        print(f"\nFailed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
