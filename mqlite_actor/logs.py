"""The loggers of the program's parts, whose lines harm nobody.

Used by every module that has something to say. Most say it in the loop of an engine or beside it,
and the handlers are those of whichever program has the engine: one that raises (its collector is
down) must not end the engine, a receiver or a request. Rule: what a handler raises is shown as
`logging.Handler.handleError` would have, and is over. A handler that waits holds up its caller all
the same, and one that calls the queue waits for itself: see docs/how-to/monitoring.md.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any


class Harmless(logging.LoggerAdapter[logging.Logger]):
    """A logger that lets no handler's failure out."""

    def log(
        self,
        level: int,
        msg: object,
        *args: object,
        **kwargs: Any,  # noqa: ANN401  # as `logging` has it
    ) -> None:
        try:
            super().log(level, msg, *args, stacklevel=2, **kwargs)
        except Exception:  # noqa: BLE001  # it is the program's own, and nobody's here
            if logging.raiseExceptions and sys.stderr:
                with suppress(OSError, ValueError):  # it may be closed
                    traceback.print_exc(file=sys.stderr)

    def process(
        self,
        msg: Any,  # noqa: ANN401  # as `logging` has it
        kwargs: MutableMapping[str, Any],
    ) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, kwargs  # the fields of a line stay


def logger(name: str) -> Harmless:
    """The logger of this name, for its module."""
    return Harmless(logging.getLogger(name), {})
