"""Batching: queries that wait at the same time are answered by one search.

ask ──► waiting ──► all that wait, in one thread ──► an answer each
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from nearsay.errors import InputError

AT_ONCE = 16
Query = TypeVar("Query")
Result = TypeVar("Result")


@dataclass(eq=False)
class _Waiting(Generic[Query]):
    query: Query
    options: Hashable
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class QuestionBatcher(Generic[Query, Result]):
    """Collects queries while others are being answered, and answers them together.

    Parameters
    ----------
    run : calls a function in a thread when it is its turn.
    answer : (queries, options) to as many answers.
    """

    def __init__(
        self, run: Callable[..., Awaitable[Any]], answer: Callable[[Sequence[Query], Any], Sequence[Result]]
    ) -> None:
        self._run = run
        self._answer = answer
        self._waiting: list[_Waiting[Query]] = []
        self._busy: asyncio.Task[None] | None = None

    async def ask(self, query: Query, options: Hashable = None) -> Result:
        """The answer to one query; only queries of equal ``options`` are answered together."""
        one = _Waiting(query, options)
        self._waiting.append(one)
        if self._busy is None or self._busy.done():
            self._busy = asyncio.create_task(self._go_on())
        try:
            result: Result = await one.answer
        finally:
            if one in self._waiting:  # the client is gone
                self._waiting.remove(one)
        return result

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    async def _go_on(self) -> None:
        while self._waiting:
            options = self._waiting[0].options
            alike = [one for one in self._waiting if one.options == options][:AT_ONCE]
            self._waiting = [one for one in self._waiting if one not in alike]
            await self._answer_all(alike, options)

    async def _answer_all(self, alike: list[_Waiting[Query]], options: Hashable) -> None:
        try:
            answers = await self._run(self._answer, [one.query for one in alike], options)
        except Exception as error:
            if isinstance(error, InputError) and len(alike) > 1:  # an error of one query must not reach the others
                for one in alike:
                    await self._answer_all([one], options)
            else:
                for one in alike:
                    _put(one.answer, error)
            return
        for one, answer in zip(alike, answers, strict=True):
            _put(one.answer, answer)


def _put(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
