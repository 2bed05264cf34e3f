"""A trio program with a queue inside: producers, a worker that keeps its leases, an orderly end."""

import trio

import mqlite_actor as mq


async def produce(q: mq.Handle) -> None:
    for number in range(1, 4):
        await q.send_one("photos", {"photo": number}, message_id=f"photo-{number}")


async def main() -> None:
    done: set[int] = set()
    async with mq.open_embedded("file:./photos.db") as q, trio.open_nursery() as nursery:
        await q.create_queue("photos", lock_duration=30, max_delivery_count=5)
        worker = q.receiver("photos", auto_renew=True, on_failure=mq.retry(delay=0.1))

        async def resize(message: mq.HeldMessage) -> None:
            photo = message.json()["photo"]
            if photo == 2 and message.delivery_count == 1:
                raise OSError("the disk was busy")
            print("resized", photo, "at delivery", message.delivery_count)
            done.add(photo)
            if done == {1, 2, 3}:
                worker.stop()

        nursery.start_soon(worker.run, resize)
        nursery.start_soon(produce, q)
    print("done")


trio.run(main)
