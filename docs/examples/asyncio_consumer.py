"""An asyncio program: the engine runs in a background thread, tasks use it as any async library."""

import asyncio

import mqlite_actor as mq


async def produce(q: mq.Handle) -> None:
    await q.send("mails", ["to ann", "to bob", "to cid"])
    await q.send_one("mails", "end")


async def consume(q: mq.Handle) -> None:
    async for message in q.consume("mails"):
        await message.complete()
        if message.text == "end":
            return
        print("mailed", message.text)


async def main() -> None:
    async with mq.connect(":memory:") as q:
        await q.create_queue("mails")
        await asyncio.gather(consume(q), produce(q))


asyncio.run(main())
