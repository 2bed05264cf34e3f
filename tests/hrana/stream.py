"""One stream: what each kind of request does to its connection.

`answer` is called for the requests of a pipeline in order, `entries` for a cursor, both by whoever
holds `busy`. A statement that fails is an answer; ProtocolError is not. `Trouble` is how a fault of
the test reaches into a request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import apsw
import apsw.ext

from tests.hrana.execution import (
    ANSWER_BYTES_MAX,
    Prepared,
    Result,
    prepare,
    run,
    spelled,
    weight,
)
from tests.hrana.manners import Manners
from tests.hrana.statements import BEGIN, facts, one
from tests.hrana.values import Json, ProtocolError, SqlFailure
from tests.hrana.writers import Writers

TEXTS_MAX: Final = 50
TEXT_BYTES_MAX: Final = 5000


@dataclass(frozen=True)
class Trouble:
    """What a test lets happen inside a request; harmless as it is."""

    busy_on_begin: bool = False
    time_out_before: int = -1
    """The step of a batch before which its transaction is over."""


class Step(NamedTuple):
    """What became of a step: one of both, or neither when it was skipped."""

    result: Result | None = None
    failure: SqlFailure | None = None


class Stream:
    """A connection and what belongs to it."""

    def __init__(
        self, number: int, connection: apsw.Connection, manners: Manners, writers: Writers
    ) -> None:
        self.number = number
        self.connection = connection
        self.busy = threading.Lock()
        self.is_timed_out = False
        self.is_taken = self.is_closed = False
        self.sequence = 0
        self.last_used = 0.0
        self._manners = manners
        self._writers = writers
        self._texts: dict[int, str] = {}
        self._room = 0
        self._is_over = False
        writers.watch(self)

    def answer(self, request: Json, version: int, trouble: Trouble) -> Json:
        """The result of one request."""
        kind = request.get("type")
        if kind not in self._manners.requests[version]:
            raise ProtocolError(f"the request {kind!r} is not known in version {version}")
        if self.is_closed:
            raise ProtocolError("The stream was closed")
        try:
            response = _ANSWERS[kind](self, request, version, trouble)
        except SqlFailure as failure:
            return {"type": "error", "error": failure.told()}
        return {"type": "ok", "response": {"type": kind, **response}}

    def entries(self, batch: Json, trouble: Trouble) -> Iterator[Json]:
        """The lines of a cursor over a batch."""
        try:
            for number, step in enumerate(self._steps(batch, 3, trouble)):
                yield from _entries(number, step)
        except SqlFailure as failure:
            yield {"type": "error", "error": failure.told()}

    def leave(self) -> None:
        """Roll back and close the connection; harmless when repeated."""
        self.is_closed = True
        with self.busy:
            self.connection.close(True)
        self._writers.forget(self)

    # -- requests ----------------------------------------------------------------------------------

    def _execute(self, request: Json, _: int, trouble: Trouble) -> Json:
        prepared = prepare(self._text(request["stmt"]), request["stmt"], self._manners)
        self._start()
        return {"result": self._run(prepared, 0, trouble).told()}

    def _batch(self, request: Json, version: int, trouble: Trouble) -> Json:
        steps = list(self._steps(request["batch"], version, trouble))
        return {
            "result": {
                "step_results": [step.result and step.result.told() for step in steps],
                "step_errors": [step.failure and step.failure.told() for step in steps],
                "replication_index": None,
            }
        }

    def _sequence(self, request: Json, _: int, trouble: Trouble) -> Json:
        rest = self._text(request)
        self._start()
        while (found := facts(rest)).first:
            self._run(Prepared(found.first, one(found.first)), 0, trouble)
            rest = found.rest
        return {}

    def _describe(self, request: Json, _: int, __: Trouble) -> Json:
        sql = self._text(request)
        one(sql)
        try:
            found = apsw.ext.query_info(self.connection, sql)
            names = spelled(self.connection, sql)
        except apsw.Error as error:
            raise self._manners.failure(error) from error
        result = {
            "params": [{"name": name} for name in names],
            "cols": [{"name": name, "decltype": kind} for name, kind in found.description],
            "is_explain": bool(found.is_explain),
            "is_readonly": found.is_readonly,
        }
        return {"result": result}

    def _store_sql(self, request: Json, *_: object) -> Json:
        number, sql = request["sql_id"], request["sql"]
        if number in self._texts:
            raise ProtocolError(f"SQL text {number} was already stored")
        if len(self._texts) >= TEXTS_MAX:
            message = f"The server already stores {TEXTS_MAX} SQL texts, it cannot store more"
            raise SqlFailure("SQL_STORE_TOO_MANY", message)
        if len(sql.encode()) > TEXT_BYTES_MAX:
            raise SqlFailure("SQL_STORE_TOO_LARGE", "The statement is too large to be stored")
        self._texts[number] = sql
        return {}

    def _close_sql(self, request: Json, *_: object) -> Json:
        self._texts.pop(request["sql_id"], None)
        return {}

    def _get_autocommit(self, *_: object) -> Json:
        return {"is_autocommit": not self.connection.in_transaction}

    def _close(self, *_: object) -> Json:
        self.is_closed = True
        return {}

    # -- statements --------------------------------------------------------------------------------

    def _steps(self, batch: Json, version: int, trouble: Trouble) -> Iterator[Step]:
        items = batch["steps"]
        for number, item in enumerate(items):
            _check(item.get("condition"), number, version)
        texts = [self._text(item["stmt"]) for item in items]
        if self._manners.is_strict:  # a text that cannot be parsed fails all, before anything runs
            for sql in texts:
                one(sql)
        self._start()
        done: list[Step] = []
        for number, (item, sql) in enumerate(zip(items, texts, strict=True)):
            if self._holds(item.get("condition"), done):
                done.append(self._step(number, sql, item["stmt"], trouble))
            else:
                done.append(Step())
            yield done[-1]

    def _step(self, number: int, sql: str, stmt: Json, trouble: Trouble) -> Step:
        try:
            return Step(result=self._run(prepare(sql, stmt, self._manners), number, trouble))
        except SqlFailure as failure:
            code = self._manners.step_code or failure.code
            return Step(failure=SqlFailure(code, str(failure)))

    def _start(self) -> None:
        """A program begins: it is told if its transaction was ended meanwhile."""
        self._is_over, self.is_timed_out = self.is_timed_out, False
        self._room = ANSWER_BYTES_MAX

    def _run(self, prepared: Prepared, number: int, trouble: Trouble) -> Result:
        self._is_over |= number == trouble.time_out_before
        if self._is_over:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
                self._writers.note(self)
            raise SqlFailure("TRANSACTION_TIMEOUT", "Transaction timed out")
        if trouble.busy_on_begin and prepared.facts.kind == BEGIN:
            raise SqlFailure(*self._manners.busy)
        try:
            result = run(self.connection, prepared, self._manners)
        finally:
            self._writers.note(self)
        self._room -= weight(result)
        if self._room < 0:
            raise SqlFailure("RESPONSE_TOO_LARGE", "Response is too large")
        return result

    def _text(self, holder: Json) -> str:
        sql, number = holder.get("sql"), holder.get("sql_id")
        if (sql is None) == (number is None):
            raise ProtocolError("exactly one of `sql` and `sql_id` is needed")
        if sql is not None:
            return str(sql)
        if number not in self._texts:
            raise ProtocolError(f"SQL text {number} is not stored")
        return self._texts[number]

    def _holds(self, condition: Json, done: list[Step]) -> bool:
        if condition is None:
            return True
        kind = condition["type"]
        if kind == "not":
            return not self._holds(condition["cond"], done)
        if kind in ("and", "or"):
            verdicts = [self._holds(each, done) for each in condition["conds"]]
            return all(verdicts) if kind == "and" else any(verdicts)
        if kind == "is_autocommit":
            return not self.connection.in_transaction
        step = done[condition["step"]]
        if kind == "ok":
            return step.result is not None
        return step.result is None and (step.failure is not None or self._manners.skipped_is_error)


_ANSWERS: Final[dict[str, Callable[[Stream, Json, int, Trouble], Json]]] = {
    "execute": Stream._execute,
    "batch": Stream._batch,
    "sequence": Stream._sequence,
    "describe": Stream._describe,
    "store_sql": Stream._store_sql,
    "close_sql": Stream._close_sql,
    "get_autocommit": Stream._get_autocommit,
    "close": Stream._close,
}


def _check(condition: Json, number: int, version: int) -> None:
    """ProtocolError unless a condition of this step is well formed and looks back only."""
    if condition is None:
        return
    kind = condition.get("type")
    if kind in ("ok", "error"):
        if not 0 <= condition["step"] < number:
            raise ProtocolError(f"step {number} refers to step {condition['step']}")
    elif kind == "not":
        _check(condition["cond"], number, version)
    elif kind in ("and", "or"):
        for each in condition["conds"]:
            _check(each, number, version)
    elif kind != "is_autocommit" or version < 3:
        raise ProtocolError(f"unknown condition {kind!r}")


def _entries(number: int, step: Step) -> Iterator[Json]:
    if step.failure is not None:
        yield {"type": "step_error", "step": number, "error": step.failure.told()}
    if step.result is None:
        return
    yield {"type": "step_begin", "step": number, "cols": step.result.columns}
    for row in step.result.rows:
        yield {"type": "row", "row": row}
    yield {
        "type": "step_end",
        "affected_row_count": step.result.affected,
        "last_insert_rowid": step.result.last_row_id,
    }
