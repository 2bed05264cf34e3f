"""The other yardstick: what quart-trio on hypercorn does when the route does nothing.

Served by stock hypercorn (`bench.http.vanilla`); decodes the same Send and answers a constant.
"""

from __future__ import annotations

from quart import Response, request
from quart_trio import QuartTrio

from mqlite_actor.contract.calls import BY_PATH

app = QuartTrio(__name__)

SEND = BY_PATH["/mqlite.v1.QueueService/Send"]


@app.post("/send")
async def send() -> Response:
    """Decode and answer."""
    SEND.decoder.decode(await request.get_data(as_text=False))
    return Response(b'{"seq_numbers":[1]}\n', content_type="application/json")
