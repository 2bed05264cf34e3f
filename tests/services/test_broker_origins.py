"""Browsers: what a page of another origin may do, and that it cannot reach an open broker.

With tokens on, the token is the guard and any page may try (W35). With authentication off the Host
must be a loopback name and a foreign Origin is refused (design.md decision 13, faults B77).
"""

from __future__ import annotations

import json

import pytest

from mqlite_actor.engine.engine import Engine
from tests.services.broker_scene import BEARER, Scene, failure, message, path, raw, served
from tests.services.door_client import Answer

FORBIDDEN = (403, "permission_denied")
ALLOW = "access-control-allow-origin"
CORS_FIELDS = {
    ALLOW,
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-max-age",
    "vary",
}


async def answers_of_every_kind(scene: Scene) -> list[Answer]:
    """200, 200, 200, 400, 401, 404, 404 and 405."""
    return [
        await scene.ask("/healthz", method="GET", fields=()),
        await scene.ask("/", method="GET", fields=()),
        await scene.call("AdminService/ListQueues"),
        await scene.ask(path("Stats"), b"{{"),
        await scene.call("Stats", {"queue": "q"}, fields=("Authorization: Bearer wrong",)),
        await scene.call("Stats", {"queue": "none"}),
        await scene.ask("/nope"),
        await scene.ask(path("Stats"), method="GET"),
    ]


@pytest.mark.promise("W35", "T71")
async def test_with_tokens_every_answer_may_be_read_by_any_page(engine: Engine) -> None:
    async with served(engine) as scene:
        answers = await answers_of_every_kind(scene)
    assert [each.status for each in answers] == [200, 200, 200, 400, 401, 404, 404, 405]
    for answer in answers:
        assert (answer.headers[ALLOW], "vary" in answer.headers) == ("*", False)


@pytest.mark.promise("W37", "T71")
async def test_a_named_origin_stands_in_every_answer_with_vary(engine: Engine) -> None:
    async with served(engine, MQLITE_CORS="https://a.example") as scene:
        answers = await answers_of_every_kind(scene)
        answers.append(await scene.ask("/x", method="OPTIONS", fields=()))
        answers.append(await scene.call("Stats", fields=("Origin: https://b.example",)))
    for answer in answers:
        assert answer.headers[ALLOW] == "https://a.example"
        assert answer.headers["vary"] == "Origin"


@pytest.mark.promise("W36", "T71")
@pytest.mark.parametrize("target", ["/", "/healthz", "/nope", path("Send"), "/%ff", "/a?b"])
async def test_a_preflight_is_answered_anywhere_without_a_token(
    engine: Engine, target: str
) -> None:
    async with served(engine) as scene:
        asked = ("Origin: https://a.example", "Access-Control-Request-Method: POST")
        for fields in ((), asked, ("Authorization: Bearer wrong",)):
            answer = await scene.ask(target, method="OPTIONS", fields=fields)
            assert (answer.status, answer.body) == (204, b"")
            assert answer.headers["access-control-allow-methods"] == "GET, POST, OPTIONS"
            assert answer.headers["access-control-allow-headers"] == "Authorization, Content-Type"
            assert answer.headers["access-control-max-age"] == "86400"
            assert answer.headers[ALLOW] == "*"


@pytest.mark.parametrize("cors", ["*", "https://a.example"])
async def test_options_of_the_whole_server_is_200_and_no_preflight(
    engine: Engine, cors: str
) -> None:
    async with served(engine, MQLITE_CORS=cors) as scene:
        answer = await scene.ask("*", method="OPTIONS", fields=())
    assert answer.status == 200
    assert not CORS_FIELDS & set(answer.headers)


@pytest.mark.promise("W38", "T71")
@pytest.mark.parametrize(
    "environ", [{"MQLITE_CORS": "off"}, {"MQLITE_CORS": " OFF "}, {"MQLITE_TOKENS": "off"}]
)
async def test_without_cors_no_answer_has_its_fields_and_options_is_a_method(
    engine: Engine, environ: dict[str, str]
) -> None:
    is_open = "MQLITE_TOKENS" in environ
    async with served(engine, **environ) as scene:
        options = [
            await scene.ask(target, method="OPTIONS", fields=fields)
            for target in (path("Stats"), "/nope", "/healthz")
            for fields in ((), (BEARER,))
        ]
        answers = await answers_of_every_kind(scene)
    statuses = [405, 405, 404, 404, 200, 200] if is_open else [401, 405, 401, 404, 200, 200]
    assert [each.status for each in options] == statuses
    for answer in (*options, *answers):
        assert not CORS_FIELDS & set(answer.headers)


# -- authentication off ----------------------------------------------------------------------------

LOOPBACK_HOSTS = (
    "127.0.0.1",
    "127.0.0.1:6754",
    "127.1.2.3:1",
    "localhost",
    "LocalHost:6754",
    "[::1]",
    "[::1]:6754",
)
FOREIGN_HOSTS = (
    "",
    "evil.example",
    "evil.example:6754",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil.example#localhost",
    "evil.example/127.0.0.1",
    "localhost@evil.example",
    "0.0.0.0",
    "192.168.0.1",
    "[::2]",
    "[::1",
    "::1]",
    "localhost evil.example",
    "127.0.0.1evil",
    "\xbd",
)


@pytest.mark.parametrize("host", LOOPBACK_HOSTS)
async def test_an_open_broker_serves_under_loopback_names(engine: Engine, host: str) -> None:
    async with served(engine, MQLITE_TOKENS="off") as scene:
        answer = await scene.ask(path("AdminService/ListQueues"), fields=(), host=host)
    assert answer.status == 200


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
async def test_an_open_broker_refuses_every_other_name(engine: Engine, host: str) -> None:
    async with served(engine, MQLITE_TOKENS="off") as scene:
        host_bytes = b"Host: " + host.encode("latin-1")
        target = path("AdminService/ListQueues")
        answer = await scene.ask(target, fields=(host_bytes,), host=None)
    if answer.status == 400 and answer.headers["content-type"].startswith("text/plain"):
        return  # the HTTP layer would not have it, which is as good
    assert failure(answer) == FORBIDDEN
    assert "loopback" in message(answer)


FOREIGN_ORIGINS = (
    "https://evil.example",
    "http://evil.example:{port}",
    "null",
    "http://127.0.0.1:1",
    "http://127.0.0.1",
    "http://localhost:{port}.evil.example",
    "http://127.0.0.1:{port}@evil.example",
    "http://[evil",
    "file://",
    "x",
)


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
async def test_an_open_broker_refuses_other_pages(engine: Engine, origin: str) -> None:
    async with served(engine, MQLITE_TOKENS="off") as scene:
        fields = (f"Origin: {origin.format(port=scene.port)}", "Content-Type: text/plain")
        host = f"127.0.0.1:{scene.port}"
        target = path("AdminService/CreateQueue")
        answer = await scene.ask(target, b'{"name":"q"}', fields=fields, host=host)
        assert failure(answer) == FORBIDDEN
        listed = await scene.ask(path("AdminService/ListQueues"), fields=(), host=host)
    assert json.loads(listed.body) == {"queues": []}


async def test_an_open_broker_serves_its_own_pages(engine: Engine) -> None:
    async with served(engine, MQLITE_TOKENS="off") as scene:
        for name in ("127.0.0.1", "localhost"):
            host = f"{name}:{scene.port}"
            for origin in (f"http://{host}", f"HTTP://{host.upper()}"):
                answer = await scene.ask(
                    path("AdminService/ListQueues"), fields=(f"Origin: {origin}",), host=host
                )
                assert answer.status == 200


async def test_the_operator_may_let_one_origin_or_any_into_an_open_broker(engine: Engine) -> None:
    allowed, other = "Origin: https://a.example", "Origin: https://b.example"
    async with served(engine, MQLITE_TOKENS="off", MQLITE_CORS="https://a.example") as scene:
        answer = await scene.call("AdminService/ListQueues", fields=(allowed,))
        assert (answer.status, answer.headers[ALLOW]) == (200, "https://a.example")
        assert failure(await scene.call("AdminService/ListQueues", fields=(other,))) == FORBIDDEN
    async with served(engine, MQLITE_TOKENS="off", MQLITE_CORS="*") as scene:
        assert (await scene.call("AdminService/ListQueues", fields=(other,))).status == 200
        evil = await scene.ask(
            path("AdminService/ListQueues"), fields=(other,), host="evil.example"
        )
        assert failure(evil) == FORBIDDEN


@pytest.mark.parametrize(
    ("addr", "environ"), [("127.0.0.1:0", {}), (":0", {"MQLITE_TOKENS": "off"})]
)
async def test_with_a_token_or_the_override_any_name_and_page_may_ask(
    engine: Engine, addr: str, environ: dict[str, str]
) -> None:
    flags: dict[str, str | bool] = {"addr": addr, "insecure-allow-remote": True}
    async with served(engine, flags, **environ) as scene:
        fields = (BEARER, "Origin: https://evil.example")
        answer = await scene.ask(
            path("AdminService/ListQueues"), fields=fields, host="broker.example"
        )
    assert answer.status == 200


async def test_a_refused_page_does_not_end_the_connection_of_a_proxy(engine: Engine) -> None:
    async with served(engine, MQLITE_TOKENS="off") as scene, await scene.connect() as client:
        evil = raw(path("AdminService/ListQueues"), fields=("Origin: https://evil.example",))
        assert failure(await client.ask(evil)) == FORBIDDEN
        assert (await client.ask(raw(path("AdminService/ListQueues"), fields=()))).status == 200
