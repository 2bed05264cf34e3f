"""The application on hypercorn: a Quart request becomes a question, a reply its response.

`serve.py` builds it around an engine and hands it to the door. What is asked and answered is
`rpc.py`'s business; here is only what Quart has to do with it. Quart's own routing is not used.
"""

from __future__ import annotations

from quart import Request, Response
from quart.ctx import RequestContext
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from mqlite_actor.contract import limits
from mqlite_broker.door_app import DoorApp, DoorRequest, DoorResponse
from mqlite_broker.engines import AnyEngine
from mqlite_broker.rpc import BodyRefused, Question, Reply, Rpc
from mqlite_broker.settings import Settings

TOO_LARGE = f"the request is over {limits.REQUEST_BYTES_MAX // limits.MIB} MiB; send less in a call"


class BrokerApp(DoorApp):
    """One broker's HTTP face."""

    def __init__(self, engine: AnyEngine, settings: Settings) -> None:
        super().__init__("mqlite_broker", static_folder=None)
        self.config["MAX_CONTENT_LENGTH"] = limits.REQUEST_BYTES_MAX
        self.settings = settings
        self.rpc = Rpc(engine, settings)

    async def dispatch_request(self, request_context: RequestContext | None = None) -> Response:
        """Quart's door into the application."""
        assert request_context is not None, "Quart always passes it"
        current = request_context.request

        async def body() -> bytes:
            return await _body(current)

        reply, log = await self.rpc.answer(_question(current), body)
        if isinstance(current, DoorRequest):
            current.exchange.hold(reply.room)
        log()
        return _response(reply)


def _question(current: Request) -> Question:
    headers = current.headers
    return Question(
        method=current.method,
        path=str(current.scope["path"]),  # Quart's own has its leading slashes collapsed
        credentials=tuple(headers.getlist("Authorization")),
        host=headers.get("Host", ""),
        origin=headers.get("Origin", ""),
        idempotency_key=headers.get("Idempotency-Key", ""),
        known=headers.get("If-None-Match", ""),
    )


async def _body(current: Request) -> bytes:
    try:
        return await current.get_data(cache=False, as_text=False, parse_form_data=False)
    except RequestEntityTooLarge as error:
        raise BodyRefused(413, TOO_LARGE) from error
    except HTTPException as error:
        reason = error.description or "the body could not be read"
        raise BodyRefused(error.code or 500, reason) from error


def _response(reply: Reply) -> Response:
    response = DoorResponse(reply.body, reply.status, content_type=reply.content_type or None)
    response.headers.extend(reply.fields)
    if not reply.content_type:
        del response.headers["Content-Type"]
    response.undelivered = reply.undelivered
    return response
