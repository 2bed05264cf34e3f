"""The door's counters when the doors stand in several processes: reported at once, summed by one.

A front-end process puts `Reports` behind its counters; the process that started it has `Sums`
(ruling R6). What a request counted is on its way to the writer before its answer is offered to the
client, so that whoever asks next, at whichever door, reads it, and a killed process takes nothing
along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from mqlite_actor.contract import wire
from mqlite_actor.contract.observe import HttpInfo, ObserveResponse
from mqlite_actor.engine.meters import StorageMeter, outcome_of
from mqlite_broker.auth import OUTCOMES
from mqlite_broker.traffic import Traffic

TOPIC: Final = "traffic"
"""Of the link's notes that hold reports."""


class Finished(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """`Traffic.count` was called."""

    rpc: str
    code: str
    status: int
    seconds: float


class Took(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """`Traffic.took` was called."""

    rpc: str
    seconds: float


class Checked(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A credential check ended like this so many times more."""

    outcome: str
    more: int


class Looked(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A look at the writer's file has ended, in the words of `meters.outcome_of`."""

    outcome: str
    error_code: str
    seconds: float


Report: TypeAlias = Finished | Took | Checked | Looked
_reports: Final = msgspec.msgpack.Decoder(list[Report])


class Reports:
    """What was counted and not told yet."""

    __slots__ = ("_rows", "_tell")

    def __init__(self, tell: Callable[[str, object], None]) -> None:
        self._tell = tell
        self._rows: list[Report] = []

    def add(self, row: Report) -> None:
        """Keep until the next `send`."""
        self._rows.append(row)

    def send(self) -> None:
        """Tell everything now."""
        if self._rows:
            rows, self._rows = self._rows, []
            self._tell(TOPIC, rows)


class ReportedTraffic(Traffic):
    """The traffic of a front-end process: nothing is kept here."""

    __slots__ = ("_reports",)

    def __init__(self, reports: Reports) -> None:
        super().__init__()
        self._reports = reports

    def count(self, rpc: str, code: str, status: int, seconds: float) -> None:
        """One finished request of a registered call; told before its answer is written."""
        self._reports.add(Finished(rpc, code, status, seconds))
        self._reports.send()

    def took(self, rpc: str, seconds: float) -> None:
        """Time of a call behind the credential check; told with the request's end."""
        self._reports.add(Took(rpc, seconds))


class ReportedChecks(dict[str, int]):
    """Credential checks by outcome: a change is reported with the request that it belongs to."""

    def __init__(self, reports: Reports) -> None:
        super().__init__(dict.fromkeys(OUTCOMES, 0))
        self._reports = reports

    def __setitem__(self, outcome: str, count: int) -> None:
        self._reports.add(Checked(outcome, count - self[outcome]))
        super().__setitem__(outcome, count)


class ReportedLooks:
    """Where a front-end process counts what it asks of the file: in the writer's meter, and told
    with the request that it belongs to."""

    __slots__ = ("_reports",)

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def add(
        self,
        operation: str,  # noqa: ARG002  # a front end only reads
        error: BaseException | None,
        seconds: float,
        number: int = 1,
    ) -> None:
        """Finished calls that ended alike."""
        for _ in range(number):
            self._reports.add(Looked(*outcome_of(error), seconds))


class Sums:
    """The counters of all doors together, in the process that owns the writer, and whose storage
    meter takes in what the front ends looked at."""

    __slots__ = ("_storage", "checks", "traffic")

    def __init__(self, storage: StorageMeter) -> None:
        self._storage = storage
        self.traffic = Traffic()
        self.checks = dict.fromkeys(OUTCOMES, 0)

    def add(self, content: bytes | msgspec.Raw) -> None:
        """Take a note's reports in."""
        for row in _reports.decode(content):
            if isinstance(row, Finished):
                self.traffic.count(row.rpc, row.code, row.status, row.seconds)
            elif isinstance(row, Took):
                self.traffic.took(row.rpc, row.seconds)
            elif isinstance(row, Looked):
                self._storage.note("read", row.outcome, row.error_code, row.seconds)
            else:
                self.checks[row.outcome] += row.more

    def shown(self) -> HttpInfo:
        """As Observe shows it."""
        return self.traffic.shown(self.checks.items())

    def completed(self, reply: wire.Response) -> wire.Response:
        """An Observe reply with what the doors counted; any other as it is."""
        if isinstance(reply, ObserveResponse):
            return msgspec.structs.replace(reply, http=self.shown())
        return reply
