"""A FastAPI site whose orders and messages commit in one transaction (outbox).

uvicorn fastapi_outbox:app
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request

import mqlite_actor as mq

TABLE = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT) STRICT"


def place(tx: mq.SyncTx, item: str) -> int:
    rows = tx.execute("INSERT INTO orders (item) VALUES (?) RETURNING id", (item,))
    order = int(rows[0][0])
    tx.send_one("orders", {"order": order, "item": item}, message_id=f"order-{order}")
    return order


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with mq.open_embedded("file:./shop.db") as q:
        await q.create_queue("orders")
        await q.run_tx(lambda tx: tx.execute(TABLE))
        app.state.q = q
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{item}")
async def take_order(item: str, request: Request) -> dict[str, int]:
    q: mq.Embedded = request.app.state.q
    return {"order": await q.run_tx(lambda tx: place(tx, item))}


@app.get("/waiting")
async def waiting(request: Request) -> dict[str, int]:
    q: mq.Embedded = request.app.state.q
    return {"messages": (await q.stats("orders")).active}
