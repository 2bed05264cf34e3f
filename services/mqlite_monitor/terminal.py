"""The terminal as a screen: entered, drawn on, and left as it was found.

Used by `app` alone. Rules: whatever happens between `enter` and `leave`, `leave` gives back the
modes, the cursor and what stood there before, and may be called twice; a frame is written in one
go, and only those of its lines that have changed, so that nothing flickers; colours are the
terminal's own sixteen, and none with NO_COLOR.
"""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Mapping, Sequence

from rich.color import ColorSystem
from rich.console import Console
from rich.text import Text

WIDTH_PLAIN = 120
"""Of lines that go to no terminal: as much as a log page shows."""

_ENTER = b"\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = b"\x1b[0m\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Terminals that know these show the frame when it is whole; others pass them over."""

LINES_MAX, COLUMNS_MAX = 500, 1000
"""More than any screen; a terminal may claim anything."""


def is_screen(descriptor: int, environ: Mapping[str, str]) -> bool:
    """Whether this can be drawn on: a terminal that moves its cursor."""
    return os.isatty(descriptor) and environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def width_of(descriptor: int, environ: Mapping[str, str]) -> int:
    """Columns for plain lines."""
    try:
        columns = os.get_terminal_size(descriptor).columns
    except OSError:
        said = environ.get("COLUMNS", "")
        columns = int(said) if said.isdecimal() and len(said) < 5 else WIDTH_PLAIN
    return min(columns or WIDTH_PLAIN, COLUMNS_MAX)


class Terminal:
    """Two descriptors of one terminal. `stdin` may be something else; then there are no keys."""

    __slots__ = (
        "_console",
        "_has_color",
        "_is_open",
        "_modes",
        "_shown",
        "_size",
        "_stdout",
        "stdin",
    )

    def __init__(self, *, stdin: int, stdout: int, environ: Mapping[str, str]) -> None:
        self.stdin = stdin if os.isatty(stdin) else None
        self._stdout = stdout
        self._has_color = not environ.get("NO_COLOR")
        self._console = Console(width=COLUMNS_MAX, force_terminal=True, markup=False)
        self._modes = termios.tcgetattr(stdin) if self.stdin is not None else None
        self._is_open = False
        self._shown: list[str] = []
        self._size = (0, 0)

    def enter(self) -> None:
        """Take the screen, and keys as they are pressed. Signals stay those of the terminal."""
        if self.stdin is not None:
            modes = termios.tcgetattr(self.stdin)
            # No XON/XOFF either: a screen that Ctrl-S has stopped could not even be left.
            modes[0] &= ~(termios.IXON | termios.ICRNL)
            modes[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self.stdin, termios.TCSADRAIN, modes)
        self._is_open = True
        self._write(_ENTER)
        self.forget()

    def leave(self) -> None:
        """Give everything back."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._write(_LEAVE)
        finally:
            if self.stdin is not None and self._modes is not None:
                termios.tcsetattr(self.stdin, termios.TCSADRAIN, self._modes)

    def forget(self) -> None:
        """Draw every line next time: the screen was resized, or somebody else wrote on it."""
        self._shown = []
        self._size = (0, 0)

    def size(self) -> tuple[int, int]:
        """Columns and lines; 80 × 24 from a terminal that does not know."""
        try:
            columns, lines = os.get_terminal_size(self._stdout)
        except OSError:
            columns, lines = 0, 0
        return min(columns or 80, COLUMNS_MAX), min(lines or 24, LINES_MAX)

    def draw(self, lines: Sequence[Text], *, width: int) -> None:
        """Show a frame of this width. OSError when the terminal is gone."""
        size = (width, len(lines))
        out = [_BEGIN]
        if size != self._size:
            self._size, self._shown = size, []
            out.append("\x1b[0m\x1b[2J")
        new = [self._encoded(line, width) for line in lines]
        old = self._shown or [""] * len(new)
        for at, (text, before) in enumerate(zip(new, old, strict=True), start=1):
            if text != before:
                out.append(f"\x1b[{at};1H{text}")
        self._shown = new
        if len(out) > 1:
            self._write("".join([*out, _END]).encode("utf-8", "replace"))

    def _encoded(self, line: Text, width: int) -> str:
        parts = []
        for segment in line.render(self._console):
            style = segment.style
            if style is None or not style:
                parts.append(segment.text)
                continue
            chosen = style if self._has_color else style.without_color
            parts.append(chosen.render(segment.text, color_system=ColorSystem.STANDARD))
        # In the last column this would take the character that was just written.
        parts.append("\x1b[K" if line.cell_len < width else "")
        return "".join(parts)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._stdout, rest) :]
            except BlockingIOError:
                select.select([], [self._stdout], [])
