"""The same program embedded and remote: only the string differs.

python one_string.py file:./shop.db
python one_string.py mqlite://TOKEN@127.0.0.1:6754
"""

import sys

import trio

import mqlite_actor as mq


async def main(dsn: str) -> None:
    async with mq.connect(dsn) as q:
        await q.create_queue("coffee", lock_duration=30)
        number = await q.send_one("coffee", {"cups": 2}, properties={"table": "7"})
        print("sent", number)
        for message in await q.receive("coffee", wait=5):
            print("got", message.json(), message.properties)
            await message.complete()
        print("left", (await q.stats("coffee")).total)


trio.run(main, sys.argv[1])
