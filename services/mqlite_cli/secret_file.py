"""A new file for a secret, readable by its owner alone.

Used by `key create`. It is made before the secret exists, so that a path that cannot be written is
found out while nothing is lost, and taken away again if no secret came.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from mqlite_cli.refusals import Refusal

_MODE = 0o600


class SecretFile:
    """`with SecretFile(path) as file: file.keep(secret)`; with the path "" nothing happens."""

    __slots__ = ("_descriptor", "_is_kept", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._is_kept = False

    def __enter__(self) -> Self:
        """Make the file. Refusal if there is one already, or none can be made."""
        if self._path:
            try:
                how = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                self._descriptor = os.open(self._path, how, _MODE)
            except OSError as error:
                raise Refusal(f"cannot make {self._path}: {error.strerror}") from error
        return self

    def keep(self, secret: str) -> None:
        """Write the secret and see it on the disk. Raises OSError."""
        rest = memoryview(f"{secret}\n".encode())
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        os.fsync(self._descriptor)
        self._is_kept = True

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            if not self._is_kept:
                Path(self._path).unlink(missing_ok=True)
