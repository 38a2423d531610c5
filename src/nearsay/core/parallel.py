"""Threads: their number, parallel loops, and BLAS limited to one thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import lru_cache, wraps
from threading import Lock, RLock
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar, cast

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.cancellation import go_on
from nearsay.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")
Owner = TypeVar("Owner")
Parameters = ParamSpec("Parameters")

# Helper threads over all callers; every caller also works on its own items.
MOST_HELPERS = 256

_chosen_threads: ContextVar[int | None] = ContextVar("threads", default=None)


def thread_count() -> int:
    """The number of threads: set by ``threads``, ``NEARSAY_THREADS`` or ``OMP_NUM_THREADS``; by default all cores."""
    chosen = _chosen_threads.get()
    return _default_threads() if chosen is None else chosen


@lru_cache(maxsize=1)
def _default_threads() -> int:
    for variable in ("NEARSAY_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(variable, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    return cores()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use ``count`` threads inside the block. Results never depend on it, only time does.

    It holds for the calling thread (and asynchronous task), not for others that run at the same time.

    >>> with threads(1):
    ...     thread_count()
    1
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InputError(f"The number of threads must be a whole number of at least 1; got {count!r}.")
    before = _chosen_threads.set(int(count))
    try:
        yield
    finally:
        _chosen_threads.reset(before)


def jobs(n_jobs: Any) -> AbstractContextManager[None]:
    """Threads as scikit-learn's ``n_jobs`` counts them: None leaves the setting, −1 is every core, −2 all but one.

    >>> with jobs(3):
    ...     thread_count()
    3
    """
    if n_jobs is None:
        return nullcontext()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise InputError(f"n_jobs must be None or a whole number other than 0, such as −1 for all; got {n_jobs!r}.")
    return threads(int(n_jobs) if n_jobs > 0 else max(1, cores() + 1 + int(n_jobs)))


def cores() -> int:
    """How many processor cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def in_jobs(
    method: Callable[Concatenate[Owner, Parameters], Result],
) -> Callable[Concatenate[Owner, Parameters], Result]:
    """Decorator of methods: use the number of threads of the object's ``n_jobs``."""

    @wraps(method)
    def run(self: Owner, *given: Parameters.args, **named: Parameters.kwargs) -> Result:
        n_jobs = self.n_jobs  # type: ignore[attr-defined]
        if n_jobs is None:  # the usual case, and one query is answered in some fifty microseconds
            return method(self, *given, **named)
        with jobs(n_jobs):
            return method(self, *given, **named)

    return cast(Callable[Concatenate[Owner, Parameters], Result], run)


class _OneBlasThread:
    """Limits BLAS to one thread while any caller needs that; the last one restores the setting before the first.

    Most BLAS libraries have one setting for the whole process. If every thread restored the setting it started with,
    a thread that started while another was active would restore one thread, for good. OpenMP has a setting for each
    thread, to be restored by that thread.
    """

    _lock = RLock()  # reentrant: a finalizer or a signal handler may run while its thread holds the lock
    _inside = 0
    _of_all: ClassVar[list[tuple[Any, int]]] = []  # libraries limited for the whole process, and their threads before

    def __enter__(self) -> None:
        cls = type(self)
        with cls._lock:
            if cls._inside == 0:
                cls._of_all = _limit_to_one(_blas(of_each_thread=False))
            cls._inside += 1
        self._of_this_thread = _limit_to_one(_blas(of_each_thread=True))

    def __exit__(self, *error: object) -> None:
        cls = type(self)
        _restore(self._of_this_thread)
        with cls._lock:
            cls._inside -= 1
            if cls._inside == 0:
                _restore(cls._of_all)


def _limit_to_one(libraries: list[Any]) -> list[tuple[Any, int]]:
    """Limit to one thread those that use more; gives these, with their threads before."""
    limited = [(library, threads) for library in libraries if (threads := library.num_threads or 1) > 1]
    for library, _ in limited:
        library.set_num_threads(1)
    if limited:
        _let_others_set()
    return limited


def _restore(limited: list[tuple[Any, int]]) -> None:
    for library, threads in limited:
        library.set_num_threads(threads)
    if limited:
        _let_others_set()


def _let_others_set() -> None:
    """Let any thread restore the setting: since version 3.8 threadpoolctl lets only the thread that set it do so.

    Limits that the user set in this thread are not affected.
    """
    import threadpoolctl

    ownership = getattr(threadpoolctl, "CONTROLLING_THREAD_OWNERSHIP", None)
    if ownership is not None:
        ownership.increment()
        ownership.decrement()


@lru_cache(maxsize=2)
def _blas(*, of_each_thread: bool) -> list[Any]:
    """The BLAS libraries in use whose number of threads is set for each thread, or for the whole process."""
    from threadpoolctl import ThreadpoolController

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library for library in libraries if (library.threading_layer == "openmp") == of_each_thread]


def one_blas_thread() -> AbstractContextManager[None]:
    """Limit matrix products to the calling thread: nearsay distributes blocks of rows instead."""
    return _OneBlasThread()


def in_parallel(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Call ``work`` for every item on ``thread_count()`` threads; gives the results in order.

    ``work`` should spend its time where Python's lock is released (matrix products, compiled loops).
    """
    items = list(items)
    workers = min(thread_count(), len(items))

    def unless_stopped(item: Item) -> Result:
        go_on()
        return work(item)

    with one_blas_thread():
        if workers <= 1:
            return [unless_stopped(item) for item in items]
        results: list[Any] = [None] * len(items)
        failed: list[tuple[int, BaseException]] = []
        numbers, taking = iter(range(len(items))), Lock()

        def work_on() -> None:
            while not failed:
                with taking:
                    number = next(numbers, None)
                if number is None:
                    return
                try:
                    results[number] = unless_stopped(items[number])
                except BaseException as error:
                    failed.append((number, error))

        context = copy_context()  # context variables such as that of ``threads`` are not inherited
        helpers = [_helpers().submit(context.copy().run, work_on) for _ in range(workers - 1)]
        work_on()
        for helper in helpers:
            if not helper.cancel():  # helpers that have not started find nothing left to do
                helper.result()
        if failed:
            raise min(failed, key=lambda pair: pair[0])[1]
        return results


@lru_cache(maxsize=1)
def _helpers() -> ThreadPoolExecutor:
    """A growing pool of threads: starting one takes as long as a few queries."""
    return ThreadPoolExecutor(MOST_HELPERS, thread_name_prefix="nearsay")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # a forked process has none of these threads


def shares(n: int, most: int) -> Iterator[slice]:
    """Cut ``range(n)`` into even slices of at most ``most``, equally many for every thread.

    >>> with threads(2):
    ...     [(part.start, part.stop) for part in shares(10, most=4)]
    [(0, 3), (3, 6), (6, 9), (9, 10)]
    """
    rounds = -(-n // max(1, most * thread_count()))
    return row_blocks(n, size=max(1, -(-n // max(1, rounds * thread_count()))))
