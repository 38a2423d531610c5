"""Lazy JIT: loops run in Python until compiling pays off.

    little work    the loop runs in Python      numba is not imported
    more work      the same loop, compiled      once per machine, cached on disk, releases the GIL

Compiling takes seconds, so it starts once the uncompiled work has taken about as long as loading the cache would.
From then on, every loop in this process is compiled.

Results are bit-identical either way, provided that a loop

- sums in an explicit loop: ``np.sum`` adds in another order;
- takes ``exp``, ``log`` etc. from ``math``, as compiled code does (numpy's differ in the last bit), and writes
  ``math.exp2(x)`` for ``2.0 ** x``, which compilers turn into it;
- computes in float64 and squares by multiplying: Python keeps float32 where compiled code does not.

Loops that cannot keep to this are marked ``only_compiled``.
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

# Division by zero gives what numpy gives; without a check for it, loops are vectorized.
OPTIONS = {"cache": os.environ.get("NEARSAY_KEEP_COMPILED") != "0", "nogil": True, "error_model": "numpy"}

# Importing numba and loading cached loops takes about a second, compiling them many: work of up to two seconds runs
# uncompiled.
WORTH_COMPILING = 2e9  # nanoseconds
# Estimated cost in Python of each number passed to a loop (about twenty operations), in nanoseconds.
PYTHON_STEP = 2000

# Compiling for longer than this is announced on a terminal.
LONG = 2.0  # seconds
ANNOUNCEMENT = "nearsay: compiling for this machine, once (what is compiled is kept on disk for the next time)"

_lock = threading.RLock()
_spent = 0.0
_decided: bool | None = None  # whether loops are compiled; None while undecided
_forced = False  # whether ``forced`` decided it


def worth_compiling(nanoseconds: float) -> bool:
    """Whether to compile for work that would take this long uncompiled; once True, always True."""
    global _decided
    if _decided is None and _spent + nanoseconds > WORTH_COMPILING:
        _decided = True
    return bool(_decided)


def done_without(nanoseconds: float) -> None:
    """Count work that ran uncompiled."""
    global _spent
    with _lock:
        _spent += nanoseconds


def start_compiling() -> None:
    """Compile all loops from now on."""
    global _decided
    _decided = True


@contextmanager
def forced(compile_all: bool | None) -> Iterator[None]:
    """Compile all loops inside the block (True), or none that can run in Python (False). For tests and timings.

    None decides as in a new process. Applies to all threads.
    """
    global _decided, _forced, _spent
    before = _decided, _forced, _spent
    _decided, _forced, _spent = compile_all, True, 0.0
    try:
        yield
    finally:
        _decided, _forced, _spent = before


class Loop:
    """A function of arrays and numbers that runs in Python or compiled, whichever is estimated to be faster.

    What is compiled is kept on disk by signature and processor, and by ``variant`` if that changes it, too.
    """

    __wrapped__: Callable[..., Any]

    def __init__(
        self, function: Callable[..., Any], *, only_compiled: bool = False, variant: str = "", **options: Any
    ) -> None:
        update_wrapper(self, function)
        self._variant = variant
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
        """Run the loop in Python."""
        with np.errstate(all="ignore"):  # compiled code does not warn either
            return self.__wrapped__(*given)

    @property
    def machine_code(self) -> Callable[..., Any]:
        """The numba dispatcher, which compiles for each new combination of argument types."""
        if self._machine_code is None:
            with _lock:
                self._machine_code = self._machine_code or self._to_be_compiled()
                if not _forced:
                    self._step_aside(self._machine_code)
        return self._machine_code

    def _step_aside(self, machine_code: Callable[..., Any]) -> None:
        """Replace this wrapper by the dispatcher, to save half a microsecond per call."""
        home = vars(sys.modules[self.__wrapped__.__module__])
        if home.get(self.__wrapped__.__name__) is self:
            home[self.__wrapped__.__name__] = machine_code

    def _to_be_compiled(self) -> Callable[..., Any]:
        from numba import njit

        global _decided
        _decided = True if _decided is None else _decided
        _announce_compiling()
        # A copy of the function in which calls to other loops are calls to their dispatchers.
        loop = cast(FunctionType, self.__wrapped__)
        names = dict(loop.__globals__)
        for name in loop.__code__.co_names:
            if isinstance(names.get(name), Loop):
                names[name] = names[name].machine_code
        twin = FunctionType(loop.__code__, names, loop.__name__, loop.__defaults__, loop.__closure__)
        twin.__qualname__, twin.__doc__ = loop.__qualname__ + self._variant, loop.__doc__  # the file has this name
        return njit(**{**OPTIONS, **self._options})(twin)


compiled = Loop
only_compiled = partial(Loop, only_compiled=True)


def _numbers_in(given: tuple[Any, ...]) -> int:
    return sum(
        one.size if isinstance(one, np.ndarray) else _numbers_in(one) if isinstance(one, tuple) else 1 for one in given
    )


# ---------------------------------------------------------------- announcement on a terminal


class CompilingTime:
    """Adds up the compile time of nearsay's loops, and announces it once when it is long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: list[float] = []  # a stack: one loop is compiled while another is; numba compiles in one thread
        self._total = 0.0
        self._announced = False

    def notify(self, event: Any) -> None:
        """Called by numba when it starts and when it ends compiling a function."""
        if not event.data["dispatcher"].py_func.__module__.startswith("nearsay."):
            return
        if event.is_start:
            self._began.append(self._clock())
            return
        began = self._began.pop()
        self._total += 0.0 if self._began else self._clock() - began
        if self._total > LONG and not self._announced:
            self._announced = True
            if sys.stderr is not None and sys.stderr.isatty():
                print(ANNOUNCEMENT, file=sys.stderr, flush=True)


@cache
def _announce_compiling() -> None:
    """Register with numba's compile events, once."""
    from numba.core import event

    event.Listener.register(CompilingTime)
    event.register("numba:compile", CompilingTime())
