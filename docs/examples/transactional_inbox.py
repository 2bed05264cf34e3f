"""Inbox: a message and what it changed commit together, so that handling it happens once.

The handler fails after its work, as a crash would; the work is undone, and done once at the end.
"""

from functools import partial

import mqlite_actor as mq

TABLE = "CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, cents INTEGER) STRICT"
ADD = "UPDATE accounts SET cents = cents + ? WHERE name = ?"


def book(tx: mq.SyncTx, message: mq.SyncReceivedMessage) -> None:
    payment = message.json()
    tx.execute(ADD, (payment["cents"], payment["to"]))
    if message.delivery_count == 1:
        raise ConnectionError("the power went off")
    tx.complete(message)
    tx.send_one("receipts", f"{payment['cents']} cents for {payment['to']}")


with mq.open_embedded_sync("file:./bank.db") as q:
    for name in ("payments", "receipts"):
        q.create_queue(name)
    with q.tx() as tx:
        tx.execute(TABLE)
        tx.execute("INSERT INTO accounts VALUES ('ann', 0)")
    q.send_one("payments", {"to": "ann", "cents": 250})
    for message in q.consume("payments", wait=0, until_empty=True):
        try:
            q.run_tx(partial(book, message=message))
        except ConnectionError as error:
            print("undone:", error)
            message.abandon()
    print("accounts:", q.run_tx(lambda tx: tx.execute("SELECT * FROM accounts")))
    print("receipts:", [each.body.decode() for each in q.peek("receipts")])
