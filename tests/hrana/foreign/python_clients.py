"""Clients from PyPI, each at the same deeds: `python … CLIENT URL TOKEN` prints what it saw.

In a process of its own, because `libsql` keeps the interpreter's lock while it waits for a server
that may live in the same process.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def deeds(connect: Any) -> dict[str, Any]:  # noqa: ANN401  # whatever the client's own is
    """One table, and what it looks like after each step."""
    saw: dict[str, Any] = {}
    connection = connect()

    def count() -> Any:  # noqa: ANN401  # whatever the client gives
        return connection.execute("SELECT count(*) FROM p").fetchone()[0]

    connection.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, b BLOB, x REAL, s TEXT)")
    connection.commit()
    inserted = connection.execute(
        "INSERT INTO p VALUES (?, ?, ?, ?)", (5, b"\x00\xff\x01", 1.5, "ä\U0001f600")
    )
    saw["inserted"] = [inserted.rowcount, inserted.lastrowid]
    connection.commit()
    row = connection.execute("SELECT id, b, x, s, NULL FROM p").fetchone()
    saw["row"] = [row[0], row[1].hex(), row[2], row[3], row[4]]
    try:
        connection.execute("INSERT INTO p (id) VALUES (5)")
    except Exception as error:  # noqa: BLE001  # each client has classes of its own
        saw["constraint"] = "UNIQUE constraint failed: p.id" in str(error)
    connection.rollback()
    try:
        connection.execute("SELEC 1")
    except Exception as error:  # noqa: BLE001  # each client has classes of its own
        saw["syntax"] = str(error) != ""
    connection.rollback()
    connection.execute("INSERT INTO p (s) VALUES ('gone')")
    saw["in a transaction"] = [count(), bool(connection.in_transaction)]
    connection.rollback()
    saw["rolled back"] = [count(), bool(connection.in_transaction)]
    connection.executemany("INSERT INTO p (s) VALUES (?)", [("a",), ("b",), ("c",)])
    connection.commit()
    saw["many"] = count()
    connection.executescript("INSERT INTO p (s) VALUES ('d'); INSERT INTO p (s) VALUES (';')")
    connection.commit()
    saw["script"] = count()
    updated = connection.execute("UPDATE p SET x = 2.5 WHERE s IN ('a', 'b')")
    saw["updated"] = updated.rowcount
    connection.commit()
    returned = connection.execute("DELETE FROM p WHERE s = ';' RETURNING id, s")
    saw["returned"] = [list(each) for each in returned.fetchall()]
    connection.commit()
    saw["columns"] = [
        each[0] for each in connection.execute("SELECT id, s AS t FROM p").description
    ]
    connection.close()
    return saw


def refused(connect: Any) -> bool:  # noqa: ANN401  # as above
    """Whether a token that is none is told so."""
    try:
        connect().execute("SELECT 1")
    except Exception as error:  # noqa: BLE001  # each client has classes of its own
        return "401" in str(error)
    return False


def main(name: str, url: str, token: str) -> None:
    client = importlib.import_module(name)
    saw = deeds(lambda: client.connect(url, auth_token=token))
    saw["stranger"] = refused(lambda: client.connect(url, auth_token="nobody"))
    print(json.dumps(saw))


if __name__ == "__main__":
    main(*sys.argv[1:])
