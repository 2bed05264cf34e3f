"""Runs a test's coroutine under trio and under asyncio, with one bound for all waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

BOUND_SECONDS = 15.0
"""Generous; reaching it is a failure."""

both_loops = pytest.mark.parametrize("backend", ["trio", "asyncio"])


def run(
    backend: str, main: Callable[[], Awaitable[None]], *, seconds: float = 2 * BOUND_SECONDS
) -> None:
    """Run `main` on a fresh loop of this kind."""

    async def bounded() -> None:
        with anyio.fail_after(seconds):
            await main()

    anyio.run(bounded, backend=backend)
