"""What `receive` holds between the claim and the settle, and how it is put back.

Used by `receiving`. Two threads meet here: the one that works (claims, shows, settles) and the main
one, which gets a signal. Rules: at any moment exactly one of them may decide over the messages, the
worker until `leave` has marked them, nobody else afterwards; a message of which nothing was written
is given back, as far as the broker can, as if it had never been delivered; one that was shown is
given back as a delivery; what is being settled is left to its settle (design.md decision 12, R34).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto

from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.contract.wire import Message
from mqlite_cli.giving_back import GiveBack
from mqlite_cli.invocation import Caller
from mqlite_cli.streams import Streams
from mqlite_cli.supervision import LEAVE_SECONDS


class Left(Exception):
    """The main thread has taken over; the worker stops without another word."""


class Phase(Enum):
    """How far the worker is."""

    CLAIMING = auto()
    SHOWING = auto()
    SETTLING = auto()
    DONE = auto()


DOUBTFUL = "were shown; whether they are completed is not known, they may be delivered again"
"""What to say of messages whose settle was not answered."""


class Holding:
    """The messages of one receive. `give_back` is for those that nobody saw, `give_up` for those
    that were shown; None leaves them to their holder."""

    __slots__ = (
        "_caller", "_changed", "_failure", "_give_back", "_give_up", "_has_left", "_messages",
        "_phase", "_starts", "_streams", "_warn",
    )  # fmt: skip

    def __init__(
        self,
        streams: Streams,
        *,
        give_back: GiveBack,
        give_up: GiveBack | None,
        warn: Callable[[str], None],
    ) -> None:
        self._streams = streams
        self._failure = ""
        self._give_back = give_back
        self._give_up = give_up
        self._warn = warn
        self._changed = threading.Condition()
        self._phase = Phase.CLAIMING
        self._has_left = False
        self._caller: Caller | None = None
        self._messages: Sequence[Message] = ()
        self._starts: list[int] = []

    # -- the worker ------------------------------------------------------------------------------

    def opened(self, caller: Caller) -> None:
        """There is somebody to call. Raises Left if a signal came before."""
        with self._changed:
            self._caller = caller
            self._check()

    def hold(self, messages: Sequence[Message]) -> None:
        """The claim has ended. Raises Left if somebody else decides over the messages by now."""
        with self._changed:
            self._messages = messages
            self._move(Phase.SHOWING)

    def shown(self) -> Iterator[Message]:
        """The messages one by one, for the output; notes where in it each begins."""
        for message in self._messages:
            with self._changed:
                self._check()
                self._starts.append(self._streams.accepted)
            yield message

    def settle(self) -> None:
        """All are shown, and from here on the settle decides. Raises Left."""
        with self._changed:
            self._check()
            self._move(Phase.SETTLING)

    def done(self, failure: str = "") -> None:
        """Nothing is held any more, or nothing can be done about it."""
        with self._changed:
            self._phase = Phase.DONE
            self._failure = failure
            self._changed.notify_all()

    def _move(self, phase: Phase) -> None:
        self._phase = phase
        self._changed.notify_all()
        self._check()

    def _check(self) -> None:
        if self._has_left:
            raise Left

    # -- the main thread -------------------------------------------------------------------------

    def leave(self) -> None:
        """Take over, and put back what is held. Never raises an error of the contract; takes a few
        seconds at most beyond the calls it makes."""
        with self._changed:
            self._has_left = True
            caller, phase = self._caller, self._phase
        if caller is None:
            return
        if phase is Phase.CLAIMING:
            caller.hang_up()
            if not self._wait_while(Phase.CLAIMING):
                caller.cut()
        if phase is Phase.SETTLING:
            is_settled = self._wait_while(Phase.SETTLING)
            if self._failure or not is_settled:
                self._warn(self._failure or f"{len(self._messages)} message(s) {DOUBTFUL}")
        if phase in (Phase.CLAIMING, Phase.SHOWING):
            self._put_back(caller.twin())

    def _wait_while(self, phase: Phase) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._phase is not phase, LEAVE_SECONDS)

    def _put_back(self, caller: Caller) -> None:
        offered = self._streams.freeze()
        with self._changed:
            seen = sum(1 for start in self._starts if start < offered)
            shown, unseen = self._messages[:seen], self._messages[seen:]
        try:
            if unseen:
                self._give_back(caller, unseen)
            if shown and self._give_up is not None:
                self._give_up(caller, shown)
        except MqliteError as error:
            self._warn(
                f"not all of {len(self._messages)} message(s) could be given back "
                f"({error.message}); they come again when their lease ends"
            )


class Rounds:
    """One Holding after the other, of which a signal finds the one that is in hand."""

    __slots__ = ("_current", "_has_left", "_lock", "_make")

    def __init__(self, make: Callable[[], Holding]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._current: Holding | None = None
        self._has_left = False

    def begin(self) -> Holding:
        """The next. Raises Left if a signal came."""
        with self._lock:
            if self._has_left:
                raise Left
            self._current = self._make()
            return self._current

    def leave(self) -> None:
        """Let nothing begin any more, and leave the one that has begun."""
        with self._lock:
            self._has_left = True
            current = self._current
        if current is not None:
            current.leave()
