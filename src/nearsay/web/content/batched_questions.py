"""Questions that wait at the same time are answered by one search: many askers wait little longer than one.

asks ──► waiting ──► all that wait, in one thread ──► an answer each
            └── 503 where too many wait
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from nearsay.errors import InputError

AT_ONCE = 16
Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


@dataclass(eq=False)
class _Waiting(Generic[Asked]):
    asked: Asked
    how: Hashable
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Together(Generic[Asked, Answered]):
    """Collects what is asked while an answer is being made, and asks all of it at once.

    Parameters
    ----------
    run : calls a function in a thread when it is its turn.
    answer : several questions that are asked in one way, and that way, to as many answers.
    most : how many are answered at once.
    """

    def __init__(
        self,
        run: Callable[..., Awaitable[Any]],
        answer: Callable[[Sequence[Asked], Any], Sequence[Answered]],
        most: int = AT_ONCE,
    ) -> None:
        self._run = run
        self._answer = answer
        self._most = most
        self._waiting: list[_Waiting[Asked]] = []
        self._busy: asyncio.Task[None] | None = None

    async def ask(self, asked: Asked, how: Hashable = None) -> Answered:
        """The answer to one question; ``how`` is equal for those that may be asked together."""
        one = _Waiting(asked, how)
        self._waiting.append(one)
        if self._busy is None or self._busy.done():
            self._busy = asyncio.create_task(self._go_on())
        try:
            found: Answered = await one.answer
        finally:
            if one in self._waiting:  # whoever asked is gone
                self._waiting.remove(one)
        return found

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    async def _go_on(self) -> None:
        while self._waiting:
            how = self._waiting[0].how
            alike = [one for one in self._waiting if one.how == how][: self._most]
            self._waiting = [one for one in self._waiting if one not in alike]
            await self._answer_all(alike, how)

    async def _answer_all(self, alike: list[_Waiting[Asked]], how: Hashable) -> None:
        try:
            answers = await self._run(self._answer, [one.asked for one in alike], how)
        except Exception as error:
            if isinstance(error, InputError) and len(alike) > 1:  # what is wrong with one is not told to all
                for one in alike:
                    await self._answer_all([one], how)
            else:
                for one in alike:
                    _put(one.answer, error)
            return
        for one, answer in zip(alike, answers, strict=True):
            _put(one.answer, answer)


def _put(future: asyncio.Future[Any], found: Any) -> None:
    if future.done():
        return
    if isinstance(found, Exception):
        future.set_exception(found)
    else:
        future.set_result(found)
