"""Ctrl-C stays out of here: what keeps KeyboardInterrupt from being raised inside our own code.

In a trio program that Ctrl-C reaches, Python raises KeyboardInterrupt between any two instructions
of whichever task happens to run. In the middle of ours a command would be taken and answered by
nobody, for ever. Trio raises it instead in the program's own code, or at a checkpoint of its main
task, for functions that are marked; a mark covers what they call. It is looked up when the signal
comes, so a call costs nothing. Used by engine, link and handles; the broker's doors mark what their
tasks begin with. Rules: whatever a task of ours begins with is marked, and whatever a program calls
(tests/engine/test_interrupts.py looks at every frame, and tests/services/test_door_interrupts.py);
nothing marked ever calls the program's code in the trio thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from types import FunctionType, TracebackType
from typing import ParamSpec, TypeVar

from trio.lowlevel import enable_ki_protection

C = TypeVar("C", bound=type)
P = ParamSpec("P")
T = TypeVar("T")


def uninterrupted(cls: C) -> C:
    """Mark every method and property of a class."""
    for member in vars(cls).values():
        function = member.fget if isinstance(member, property) else member
        if isinstance(function, FunctionType):
            enable_ki_protection(function)
    return cls


def block(
    function: Callable[P, AsyncIterator[T]],
) -> Callable[P, AbstractAsyncContextManager[T, bool | None]]:
    """As `asynccontextmanager`, for a generator whose way in and way out are never cut short.

    With that one an interrupt can land in its own `__aenter__` when the generator has begun, and
    then nobody ends it. The block's body is the program's and stays open to interrupts.
    """
    make = asynccontextmanager(function)

    @wraps(function)
    @enable_ki_protection
    def made(*args: P.args, **kwargs: P.kwargs) -> AbstractAsyncContextManager[T, bool | None]:
        return _Block(make(*args, **kwargs))

    return made


@uninterrupted
class _Block(AbstractAsyncContextManager[T, bool | None]):
    __slots__ = ("_inner",)

    def __init__(self, inner: AbstractAsyncContextManager[T, bool | None]) -> None:
        self._inner = inner

    async def __aenter__(self) -> T:
        return await self._inner.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, traceback)
