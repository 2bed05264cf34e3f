"""One message to a topic, a copy for each subscription whose filter wants it."""

import mqlite_actor as mq

with mq.open_embedded_sync(":memory:") as q:
    q.subscribe("orders", "kitchen")
    q.subscribe("orders", "accounts", filter='properties["paid"] == "yes"')
    q.send_one("orders", "tea", properties={"paid": "yes"})
    q.send_one("orders", "salt", properties={"paid": "no"})
    for name in ("kitchen", "accounts"):
        found = q.receive(name, max_messages=10)
        print(name, [message.text for message in found])
        q.complete_batch(found)
