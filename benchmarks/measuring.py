"""Best of several, tables of ratios, and peak memory."""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from nearsay.core.compiling import start_compiling

Rows = list[dict[str, Any]]


Clock = Callable[[], float]


def best_time(work: Callable[[], object], repeats: int = 3, clock: Clock = time.perf_counter) -> float:
    """Seconds of the fastest of several runs: the one least disturbed. ``time.process_time`` counts processor time."""
    fastest = float("inf")
    for _ in range(repeats):
        start = clock()
        work()
        fastest = min(fastest, clock() - start)
    return fastest


def best_times(
    works: dict[str, Callable[[], object]], repeats: int = 3, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """The same for several rivals, taking turns, so that a slow spell of the machine meets all of them."""
    fastest = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, work in works.items():
            fastest[name] = min(fastest[name], best_time(work, 1, clock))
    return fastest


def peak_megabytes() -> float:
    """The most memory this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def fresh(work: Callable[..., Any], *given: Any) -> Any:
    """What work gives in a process of its own, whose memory is its own; a tiny run forks, and imports nothing anew."""
    start = "fork" if "--tiny" in sys.argv else "spawn"
    with multiprocessing.get_context(start).Pool(1, start_compiling) as pool:
        return pool.apply(work, given)


def print_table(title: str, rows: Rows) -> None:
    """Rows as a Markdown table, ready for RESULTS.md."""
    print(f"\n### {title}\n")
    if not rows:
        print("(nothing measured)")
        return
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_text(row.get(column, "")) for column in columns] for row in rows]
    widths = [max(len(column), *(len(line[i]) for line in cells)) for i, column in enumerate(columns)]
    for line in (columns, ["-" * width for width in widths], *cells):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return str(value)


def main(title: str, run: Callable[[bool], Rows]) -> None:
    """The command line of one benchmark."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it works")
    tiny = parser.parse_args().tiny
    start_compiling()
    print_table(title, run(tiny))
