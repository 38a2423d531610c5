"""Run every benchmark in this folder, each in a process of its own: ``python -m benchmarks [--tiny]``.

Tiny runs show that each still works, two at a time; others measure, and are alone.
"""

from __future__ import annotations

import importlib
import multiprocessing.connection
import os
import pkgutil
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

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
    if "--tiny" in sys.argv[1:]:
        failed = tiny_runs(sorted(names, key=lambda name: LONG.index(name) if name in LONG else len(LONG)))
    else:
        command = [sys.executable, "-m"]
        failed = [name for name in names if subprocess.run([*command, f"benchmarks.{name}"], check=False).returncode]
    if failed:
        print(f"\nFailed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


def tiny_runs(names: list[str]) -> list[str]:
    """Those that fail. Processes are forked from this one, which has imported what takes most of them seconds."""
    for name in ("numba", "scipy.optimize", "sklearn.ensemble", "sklearn.linear_model"):
        importlib.import_module(name)
    fork, waiting, failed = multiprocessing.get_context("fork"), names[::-1], []
    running: dict[int, tuple[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < 2:
                name = waiting.pop()
                process = fork.Process(target=tiny_run, args=(name, Path(folder, name)))
                process.start()
                running[process.sentinel] = name, process
            for ended in multiprocessing.connection.wait(list(running)):
                name, process = running.pop(ended)
                process.join()
                print(Path(folder, name).read_text(), flush=True)
                failed += [name] * bool(process.exitcode)
    return failed


def tiny_run(name: str, printed: Path) -> None:
    """What ``python -m benchmarks.NAME --tiny`` does; what it prints goes to a file."""
    with printed.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.argv = [name, "--tiny"]
    began = sum(os.times()[:4])  # of this process and of those that it has waited for
    try:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
    finally:
        print(f"{name}: {sum(os.times()[:4]) - began:.1f} processor seconds", flush=True)


if __name__ == "__main__":
    sys.exit(main())
