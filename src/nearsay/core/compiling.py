"""Loops that Python runs as they stand while there is little to do, and that are compiled once there is more.

    little work    the loop, run by Python      numba is not even imported
    more           the same loop, compiled      once per machine, kept on disk, without Python's lock

Compiling takes seconds, so it starts when the work done without it has taken about as long as it takes to load what
was compiled before. From then on, everything in this process is compiled.

Answers are the same to the last bit either way, because the loop is the same. This holds for loops that

- write sums out: ``np.sum`` adds in another order than a loop;
- take ``exp``, ``log`` and their like from ``math``, whose functions are the ones compiled code calls, and numpy's
  are not; and ``math.exp2(x)`` for ``2.0 ** x``, which compilers turn into it;
- compute in float64, and square by multiplying: Python keeps float32 where compiled code does not.

Other loops are for the compiler alone: ``only_compiled``.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial, update_wrapper
from types import FunctionType
from typing import Any, cast

import numpy as np

# Division by zero gives what numpy gives, and loops are vectorized without a check for it.
OPTIONS = {"cache": os.environ.get("NEARSAY_KEEP_COMPILED") != "0", "nogil": True, "error_model": "numpy"}

# Importing numba and loading compiled loops from disk takes about a second, and compiling them many: up to two seconds
# of work go without.
WORTH_COMPILING = 2e9  # nanoseconds
# What Python takes for each number that a loop is given: some twenty operations, in nanoseconds.
PYTHON_STEP = 2000

# Compiling for longer than this is announced at a terminal.
LONG = 2.0  # seconds
ANNOUNCEMENT = "nearsay: compiling for this machine, once (what is compiled is kept on disk for the next time)"

_lock = threading.RLock()
_spent = 0.0
_decided: bool | None = None  # whether loops are compiled; None until there was enough to do
_forced = False  # whether that was decided by ``forced``


def worth_compiling(nanoseconds: float) -> bool:
    """Whether work that takes so long without compiling should be left to compiled loops.

    True from the first such answer on: what is compiled is there to be used.
    """
    global _decided
    if _decided is None and _spent + nanoseconds > WORTH_COMPILING:
        _decided = True
    return bool(_decided)


def done_without(nanoseconds: float) -> None:
    """Count work that was done without compiling."""
    global _spent
    with _lock:
        _spent += nanoseconds


def start_compiling() -> None:
    """Compile from now on, as in a process that has been at work for a second."""
    global _decided
    _decided = True


@contextmanager
def forced(compile_all: bool) -> Iterator[None]:
    """Compile everything inside the block, or nothing that can do without, in all threads. For tests and timings."""
    global _decided, _forced
    before = _decided, _forced
    _decided, _forced = compile_all, True
    try:
        yield
    finally:
        _decided, _forced = before


class Loop:
    """A function of arrays and numbers that is run by Python or compiled, whichever takes less time in all."""

    __wrapped__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any], *, only_compiled: bool = False, **options: Any) -> None:
        update_wrapper(self, function)
        self.only_compiled = only_compiled
        self._options = options
        self._machine_code: Callable[..., Any] | None = None

    def __call__(self, *given: Any) -> Any:
        if _decided or self.only_compiled:
            return (self._machine_code or self.machine_code)(*given)
        cost = PYTHON_STEP * _numbers_in(given)
        if worth_compiling(cost):
            return self.machine_code(*given)
        done_without(cost)
        return self.in_python(*given)

    def in_python(self, *given: Any) -> Any:
        """Run the loop as it stands."""
        with np.errstate(all="ignore"):  # as compiled code does
            return self.__wrapped__(*given)

    @property
    def machine_code(self) -> Callable[..., Any]:
        """The loop as numba compiles it, for each new kind of arguments when they first come."""
        if self._machine_code is None:
            with _lock:
                self._machine_code = self._machine_code or self._to_be_compiled()
                if not _forced:
                    self._step_aside(self._machine_code)
        return self._machine_code

    def _step_aside(self, machine_code: Callable[..., Any]) -> None:
        """Give the place in its module to what is compiled: a query calls several loops, half a microsecond each."""
        home = vars(sys.modules[self.__wrapped__.__module__])
        if home.get(self.__wrapped__.__name__) is self:
            home[self.__wrapped__.__name__] = machine_code

    def _to_be_compiled(self) -> Callable[..., Any]:
        from numba import njit

        global _decided
        _decided = True if _decided is None else _decided
        _announce_compiling()
        # A twin of the function that calls compiled loops where the function calls loops.
        loop = cast(FunctionType, self.__wrapped__)
        names = dict(loop.__globals__)
        for name in loop.__code__.co_names:
            if isinstance(names.get(name), Loop):
                names[name] = names[name].machine_code
        twin = FunctionType(loop.__code__, names, loop.__name__, loop.__defaults__, loop.__closure__)
        twin.__qualname__, twin.__doc__ = loop.__qualname__, loop.__doc__
        dispatcher: Callable[..., Any] = njit(**{**OPTIONS, **self._options})(twin)
        return dispatcher


compiled = Loop
only_compiled = partial(Loop, only_compiled=True)


def _numbers_in(given: tuple[Any, ...]) -> int:
    return sum(
        one.size if isinstance(one, np.ndarray) else _numbers_in(one) if isinstance(one, tuple) else 1 for one in given
    )


# ---------------------------------------------------------------- what is said at a terminal


class CompilingTime:
    """Adds up how long nearsay's loops take to compile, and says so once when that is long, at a terminal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: list[float] = []  # one loop is compiled in the course of another; numba compiles in one thread
        self._total = 0.0
        self._said = False

    def notify(self, event: Any) -> None:
        """What numba calls when it begins and when it ends."""
        if not event.data["dispatcher"].py_func.__module__.startswith("nearsay."):
            return
        if event.is_start:
            self._began.append(self._clock())
            return
        began = self._began.pop()
        self._total += 0.0 if self._began else self._clock() - began
        if self._total > LONG and not self._said:
            self._said = True
            if sys.stderr is not None and sys.stderr.isatty():
                print(ANNOUNCEMENT, file=sys.stderr, flush=True)


@cache
def _announce_compiling() -> None:
    """Have numba tell when it compiles, from the first loop on."""
    from numba.core import event

    event.Listener.register(CompilingTime)
    event.register("numba:compile", CompilingTime())
