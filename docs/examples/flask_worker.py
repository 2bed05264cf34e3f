"""A Flask site that takes orders, a worker in threads beside it: one blocking handle for both."""

import threading

from flask import Flask, request

import mqlite_actor as mq


def make_app(q: mq.SyncHandle) -> Flask:
    app = Flask("shop")

    @app.post("/orders")
    def take_order() -> dict[str, int]:
        return {"number": q.send_one("orders", request.get_data())}

    return app


def main() -> None:
    done = threading.Semaphore(0)

    def handle(message: mq.SyncHeldMessage) -> None:
        print("packed", message.text)
        done.release()

    with mq.connect_sync(":memory:") as q:
        q.create_queue("orders")
        worker = q.receiver("orders")
        thread = threading.Thread(target=worker.run, args=(handle,))
        thread.start()
        try:
            client = make_app(q).test_client()  # a server calls the same function
            for item in ("tea", "salt"):
                number = client.post("/orders", data=item).get_json()["number"]
                done.acquire(timeout=30)
                print("order", number)
        finally:
            worker.stop()
            thread.join()


main()
