"""The remote store: the same queue on libSQL or Turso, behind Hrana over HTTP.

Opened by `opening.open_any`, called in the storage thread. The transaction is a stream
(`hrana_stream.py`); who may write is told by a row (`hrana_owner.py`), which every transaction
moves on. A failure means one of three things: rolled back for good (an error of the contract),
rolled back and worth another try (`Again`), or unknown. After a lost COMMIT the row is moved once
more: from where it was, then the transaction never happened and never will; or it is found where
the transaction left it. Only if the server cannot be asked is it OutcomeUnknown, and the store in
doubt. What only a file has is in `fileless.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import (
    DatabaseLocked,
    Internal,
    InvalidArgument,
    MqliteError,
    OutcomeUnknown,
    StorageFailed,
    StorageFull,
    Unavailable,
)
from mqlite_actor.logs import logger
from mqlite_actor.storage import hrana_owner, hrana_wire
from mqlite_actor.storage.database import (
    Ledger,
    Row,
    Statement,
    Transaction,
    Value,
    read_last_seq,
)
from mqlite_actor.storage.fileless import Fileless
from mqlite_actor.storage.hrana_http import Link, Lost, NotRun, unreachable
from mqlite_actor.storage.hrana_owner import Claim, Owner
from mqlite_actor.storage.hrana_stream import StepError, Stream
from mqlite_actor.storage.hrana_wire import BEGIN, COMMIT, ROLLBACK, Step
from mqlite_actor.storage.patience import Patience
from mqlite_actor.storage.remote_sql import RemoteSql
from mqlite_actor.storage.store import Again

_log = logger("mqlite.engine")

TAKEN = "another engine owns the remote database now; this one has stopped writing to it"


class HranaStore(Fileless):
    """An open remote store. Made by `hrana_opening.open_remote`; `close` gives the database up."""

    __slots__ = (
        "_buffer", "_in_user_tx", "_link", "_owner", "_stream", "changes", "complaint", "healthy",
        "ledger", "location", "user_sql",
    )  # fmt: skip

    def __init__(self, link: Link, stream: Stream, owner: Owner, location: str) -> None:
        super().__init__()
        self._link = link
        self._stream = stream
        self._owner = owner
        self._buffer: list[Statement] = []  # of a user's transaction, until it asks
        self._in_user_tx = False
        self.location = location
        self.ledger = Ledger(page_bytes=limits.REMOTE_PAGE_BYTES, keeps_leases=True)
        self.healthy = True
        self.complaint = ""
        self.changes = 0
        self.user_sql = RemoteSql(self._run_users)

    @property
    def requests(self) -> int:
        """Requests that were sent so far."""
        return self._link.requests

    def patience(self) -> Patience:
        """For tries that end when the store is cut off."""
        return Patience(cut=self._link.is_cut)

    def cut(self) -> None:
        """Never wait for the server again; from any thread."""
        self._link.cut()

    # -- transactions of the engine ----------------------------------------------------------------

    def ask(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Each one's rows, in one request; the transaction stays open, or begins."""
        try:
            found: list[list[Row]] = []
            for start in range(0, len(statements), limits.REMOTE_STEPS_MAX):
                found += self._stream.ask(statements[start : start + limits.REMOTE_STEPS_MAX])
            return found
        except NotRun as error:  # lost or not: without a COMMIT nothing of it will ever be
            self.ledger.forget()
            self._free(error)
            raise Again(error.pause_seconds) from unreachable(error.reason)
        except StepError as error:
            raise self._failure(error) from error

    def finish(self, statements: Sequence[Statement]) -> list[list[Row]] | None:
        """Run these, and commit; None if that is all that is known of them."""
        last = max(len(statements) - 1, 0) // limits.REMOTE_STEPS_MAX * limits.REMOTE_STEPS_MAX
        before, statements = self.ask(statements[:last]), statements[last:]
        try:
            found = self._stream.finish([*statements, self._owner.step()])[:-1]
        except Lost as error:
            self.ledger.forget()
            if not self._has_committed(error):
                raise Again(error.pause_seconds) from unreachable(error.reason)
            return None
        except NotRun as error:
            self.ledger.forget()
            raise Again(error.pause_seconds) from unreachable(error.reason)
        except StepError as error:
            if error.place == len(statements) and error.is_constraint:
                self._lose()
            raise self._failure(error) from error
        except MqliteError:
            self.ledger.forget()
            raise
        self._owner.number += 1
        return before + found

    def rollback(self) -> None:
        """Undo what is open and forget what was known of it."""
        self._buffer = []
        self._in_user_tx = False
        self.ledger.forget()
        self._stream.roll_back()

    def _failure(self, error: StepError) -> Exception:
        """What it means for the group that a statement failed; it is rolled back."""
        self.ledger.forget()
        if error.is_inside:
            self._free(error)
        if error.is_busy:
            return _again(Unavailable("the remote database is busy; repeat after a pause"))
        if error.is_constraint and "meta.value" in error.failure.message:
            return _again(Unavailable("a lease was not as it was remembered"))
        if error.is_full:
            return StorageFull("the remote database is full; delete or purge messages")
        if error.is_refused:
            self.healthy = False
            return StorageFailed("the remote database takes no writes; see its provider")
        if error.is_constraint and not self._is_owner():
            self._lose()  # another engine's rows are in the way
        failure = Internal(f"the remote database refused a statement ({error.failure.code})")
        failure.origin = error.failure.code or "StepError"
        return failure

    def _free(self, cause: Exception) -> None:
        """End what may be left of our transaction on a shared connection."""
        try:
            self._stream.free()
        except (NotRun, MqliteError):
            _log.debug("a shared connection could not be freed: %s", cause)

    # -- doubt -------------------------------------------------------------------------------------

    def _has_committed(self, lost: Lost) -> bool:
        """Whether the transaction whose answer is lost did commit; if not, it never will.

        OutcomeUnknown, and the store in doubt, if that cannot be found out in time.
        """
        patience, number = self.patience(), self._owner.number
        while True:
            found = self._moved_on()
            if found is not None and found.word != self._owner.word:
                break
            if found is not None and found.number in (number + 1, number + 2):
                self._owner.number = found.number
                return found.number == number + 1
            if not patience.rest():
                break
        self.healthy = False
        raise OutcomeUnknown(lost.reason)

    def _moved_on(self) -> Claim | None:
        """The row of the owner after an attempt to move it two on; None if there is no answer."""
        sql, arguments = self._owner.step(by=2)
        try:
            self._stream.free()
            reply = self._stream.steps(
                [
                    Step(BEGIN),
                    Step(sql, arguments, hrana_wire.ok(0)),
                    Step(COMMIT, (), hrana_wire.ok(1)),
                    Step(ROLLBACK, (), hrana_wire.all_of(hrana_wire.ok(0), hrana_wire.failed(2))),
                    Step(hrana_owner.LOOK),
                ]
            )
        except (NotRun, MqliteError):
            return None
        rows = hrana_wire.rows(reply.batch.step_results[4]) if reply.batch else []
        return hrana_owner.claim(rows[0]) if rows else None

    def _is_owner(self) -> bool:
        """Whether the database still belongs to this engine; in doubt it does."""
        try:
            return look(self._stream).word == self._owner.word
        except (NotRun, StepError, MqliteError):
            return True

    def _lose(self) -> None:
        """The row is not as we left it. Take the database again if nobody else has; else stop."""
        self.ledger.forget()
        self.healthy = False
        try:
            self.reopen()
        except MqliteError as error:
            raise StorageFailed(TAKEN) from error
        raise Again from Unavailable(TAKEN)

    def doubt(self) -> None:
        """Nobody knows what it holds until it was asked again."""
        self.healthy = False

    def reopen(self) -> None:
        """Own the database anew, under a new word, so that nothing sent before counts any more.

        DatabaseLocked while another engine owns it, StorageFailed if it cannot be asked.
        """
        self.ledger.forget()
        try:
            self._stream.free()
            found = look(self._stream)
            if not self._owner.is_ours(found) and not found.is_over:
                raise DatabaseLocked(f"another engine ({found.name}) owns the remote database")
            take(self._stream, self._owner, found)
        except NotRun as error:
            raise StorageFailed(error.reason) from error
        except StepError as error:
            raise StorageFailed(f"the remote database cannot be owned: {error.said}") from error
        self.healthy = True

    def stay(self) -> None:
        """Say that the owner is still there."""
        try:
            self.finish([])
        except Again as error:
            raise Unavailable("the remote database cannot be told that its owner lives") from error

    def close(self) -> None:
        """Give the database up, so that a successor need not wait, and hang up."""
        try:
            self._stream.roll_back()
            sql, arguments = self._owner.leave()
            self._stream.steps([Step(sql, arguments)])
        except (NotRun, MqliteError):
            _log.warning("the remote database could not be told; its next owner waits a moment")
        finally:
            self._link.close()

    # -- transactions of the embedding program (ruling R24) ----------------------------------------

    @property
    def in_transaction(self) -> bool:
        """Whether a user's transaction is still what it was."""
        return self._in_user_tx

    def begin(self, *, is_patient: bool = True) -> Transaction:  # noqa: ARG002  # it begins later
        """A transaction whose every question is a request, for code that cannot be run again."""
        self._buffer = []
        self._in_user_tx = True
        read_last_seq(self._run, self.ledger)
        return Transaction(
            self._run, self._run_many, self.ledger, write=self._write, write_many=self._write_many
        )

    def commit(self) -> None:
        """COMMIT. Unavailable if it is rolled back, OutcomeUnknown if nobody can tell."""
        statements, self._buffer = self._buffer, []
        try:
            self.finish(statements)
        except Again as error:
            raise Unavailable(
                "the remote database did not take the transaction; it is rolled back"
            ) from error
        finally:
            self._in_user_tx = False

    def _run(self, statements: Sequence[Statement]) -> list[list[Row]]:
        if not statements:
            return []  # and what was written waits for who asks, or for COMMIT
        before, self._buffer = self._buffer, []
        self.changes += any(not sql.lstrip().startswith("SELECT") for sql, _ in statements)
        try:
            return self.ask([*before, *statements])[len(before) :]
        except Again as error:
            self._in_user_tx = False
            raise Unavailable(
                "the remote database lost the transaction; it is rolled back"
            ) from error
        except MqliteError:
            self._in_user_tx = False
            raise

    def _run_many(self, sql: str, arguments: Sequence[tuple[Value, ...]]) -> list[Row]:
        return [row for rows in self._run([(sql, each) for each in arguments]) for row in rows]

    def _write(self, statements: Sequence[Statement]) -> None:
        self.changes += bool(statements)
        self._buffer += statements

    def _write_many(self, sql: str, arguments: Sequence[tuple[Value, ...]]) -> None:
        self._write([(sql, each) for each in arguments])

    def _run_users(self, statement: Statement) -> list[Row]:
        """One statement of a caller's own; if it fails the transaction goes on, unless the
        statement rolled it back, as ON CONFLICT ROLLBACK does."""
        if self._buffer:
            before, self._buffer = self._buffer, []
            self._run(before)
        self.changes += 1
        try:
            return self._stream.ask([statement], is_kept=True)[0]
        except StepError as error:
            self._in_user_tx = self._stream.is_begun
            if error.place == 0 and not error.is_busy:
                raise InvalidArgument(f"your statement failed: {error.failure.message}") from error
            self._in_user_tx = False
            raise Unavailable("the remote database ended the transaction") from error
        except NotRun as error:
            self._in_user_tx = False
            raise unreachable(error.reason) from error


def look(stream: Stream) -> Claim:
    """Who owns the database now."""
    reply = stream.steps([Step(hrana_owner.LOOK)])
    if reply.batch is None or reply.batch.step_results[0] is None:
        errors = reply.batch.step_errors if reply.batch else [reply.failure]
        raise StepError(errors[0] or hrana_wire.StepFailure("no answer"), 0)
    return hrana_owner.claim(hrana_wire.rows(reply.batch.step_results[0])[0])


def take(stream: Stream, owner: Owner, found: Claim) -> None:
    """Own the database; StepError if somebody was faster, or it is busy."""
    stream.finish([owner.take(found)])
    owner.took()


def _again(cause: MqliteError) -> Again:
    again = Again()
    again.__cause__ = cause
    return again
