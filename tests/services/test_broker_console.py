"""The files of the console: where they are, what guards them, and that nothing else is served."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import AsyncIterator

import pytest

from mqlite_actor.engine.engine import Engine
from mqlite_broker import ui
from tests.conformance.broker import Broker
from tests.services.broker_scene import BEARER, Scene, failure, message, raw, served

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self' http: https:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)

GUARDS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

NOT_FOUND = (404, "not_found")


@pytest.fixture
async def scene(engine: Engine) -> AsyncIterator[Scene]:
    async with served(engine) as scene:
        yield scene


def linked(page: bytes) -> list[str]:
    """What the page loads, as paths of the broker."""
    return [f"/ui/{each}" for each in re.findall(r'(?:src|href)="([^"#]+)"', page.decode())]


@pytest.mark.promise("W39", "T78")
async def test_the_console_is_a_redirect_and_a_page_for_anybody(scene: Scene) -> None:
    for fields in ((), (BEARER,), ("Authorization: Bearer wrong",)):
        moved = await scene.ask("/ui", method="GET", fields=fields)
        assert (moved.status, moved.headers["location"], moved.body) == (301, "/ui/", b"")
        page = await scene.ask("/ui/", method="GET", fields=fields)
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert page.body.startswith(b"<!doctype html>")


@pytest.mark.promise("T78")
async def test_the_page_and_its_files_carry_the_guards_and_no_licence_for_other_origins(
    scene: Scene,
) -> None:
    page = await scene.ask("/ui/", method="GET", fields=())
    for target in ("/ui/", *linked(page.body)):
        answer = await scene.ask(target, method="GET", fields=())
        assert answer.status == 200, target
        assert GUARDS.items() <= answer.headers.items(), target
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["permissions-policy"]


@pytest.mark.promise("T78")
async def test_what_the_page_loads_may_be_kept_for_ever_and_the_page_is_asked_for_anew(
    scene: Scene,
) -> None:
    page = await scene.ask("/ui/", method="GET", fields=())
    assert page.headers["cache-control"] == "no-cache"
    for target in linked(page.body):
        assert re.match(r"/ui/assets/[0-9a-f]{16}/", target)
        answer = await scene.ask(target, method="GET", fields=())
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    tag = page.headers["etag"]
    for known, status in ((tag, 304), (f'"other", {tag}', 304), ('"other"', 200)):
        again = await scene.ask("/ui/", method="GET", fields=(f"If-None-Match: {known}",))
        assert (again.status, again.headers["etag"]) == (status, tag)
        assert (again.body == b"") == (status == 304)


async def test_every_file_of_the_folder_is_served_under_its_type(scene: Scene) -> None:
    page = await scene.ask("/ui/", method="GET", fields=())
    (folder,) = {target.rpartition("/")[0] for target in linked(page.body)}
    files = [path for path in (ui.FOLDER / ui.ASSETS).rglob("*") if path.is_file()]
    assert len(files) > 10
    async with await scene.connect() as client:
        for path in files:
            name = path.relative_to(ui.FOLDER / ui.ASSETS).as_posix()
            answer = await client.ask(raw(f"{folder}/{name}", method="GET", fields=()))
            assert (answer.status, answer.body) == (200, path.read_bytes()), name
            assert answer.headers["content-type"] == ui.TYPES[path.suffix]


async def test_a_page_by_head_has_its_length_and_no_body(scene: Scene) -> None:
    page = await scene.ask("/ui/", method="GET", fields=())
    head = await scene.ask("/ui/", method="HEAD", fields=())
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(page.body))


@pytest.mark.promise("T78")
@pytest.mark.parametrize(
    "target",
    [
        "/ui/assets/",
        "/ui/assets",
        "/ui/index.html",
        "/ui/nope.js",
        "/ui/assets/main.js",
        "/ui//",
        "/ui/..%2f..%2fetc%2fpasswd",
        "/ui/%2e%2e/%2e%2e/settings.py",
        "/ui/../settings.py",
        "/ui/..%5csettings.py",
        "/ui//etc/passwd",
        "/ui/%00",
        "/ui/assets/..%00/main.js",
        "/ui/%ff",
    ],
)
async def test_what_is_not_in_the_table_is_the_json_404(scene: Scene, target: str) -> None:
    answer = await scene.ask(target, method="GET", fields=())
    assert failure(answer) == NOT_FOUND
    assert message(answer).startswith("no such path: /ui/")


async def test_a_neighbouring_path_is_no_part_of_it(scene: Scene) -> None:
    assert failure(await scene.ask("/uixyz", method="GET", fields=())) == (401, "unauthenticated")
    assert failure(await scene.ask("/uixyz", method="GET")) == NOT_FOUND


async def test_nothing_is_sent_to_the_console(scene: Scene) -> None:
    for method in ("POST", "PUT", "DELETE"):
        answer = await scene.ask("/ui/", method=method, fields=())
        assert failure(answer) == (405, "unimplemented")


@pytest.mark.promise("W2", "W39", "T78")
@pytest.mark.parametrize("word", ["off", "FALSE", " 0 ", "No"])
async def test_switched_off_it_is_neither_served_nor_in_the_card(engine: Engine, word: str) -> None:
    async with served(engine, MQLITE_UI=word) as scene:
        for target in ("/ui", "/ui/", "/ui/assets/main.js"):
            answer = await scene.ask(target, method="GET", fields=())
            assert failure(answer) == NOT_FOUND
            assert message(answer) == f"no such path: {target}"
        card = json.loads((await scene.ask("/", method="GET", fields=())).body)
        assert "ui" not in card


@pytest.mark.promise("W2")
@pytest.mark.parametrize("word", ["", "on", "yes", "whatever"])
async def test_anything_else_leaves_it_on_and_in_the_card(engine: Engine, word: str) -> None:
    async with served(engine, MQLITE_UI=word) as scene:
        card = json.loads((await scene.ask("/", method="GET", fields=())).body)
        assert list(card)[-1:] == ["ui"]
        assert card["ui"] == "/ui"
        assert (await scene.ask("/ui/", method="GET", fields=())).status == 200


async def test_tied_to_its_broker_it_may_send_nowhere_else(engine: Engine) -> None:
    async with served(engine, MQLITE_UI="self") as scene:
        page = await scene.ask("/ui/", method="GET", fields=())
    policy = page.headers["content-security-policy"]
    assert "connect-src 'self';" in policy
    assert b'data-reach="self"' in page.body


async def test_without_the_lane_it_is_the_same(engine: Engine, scene: Scene) -> None:
    page = await scene.ask("/ui/", method="GET", fields=())
    async with served(engine, MQLITE_LANE="off") as slow:
        answer = await slow.ask("/ui/", method="GET", fields=())
    assert (answer.status, answer.body) == (200, page.body)


def test_a_worker_serves_it_too(broker_of_one_worker: Broker) -> None:
    with urllib.request.urlopen(f"{broker_of_one_worker.url}/ui", timeout=15) as page:
        assert page.url.endswith("/ui/")
        assert page.read().startswith(b"<!doctype html>")


async def test_without_authentication_it_is_for_this_machine_alone(engine: Engine) -> None:
    async with served(engine, MQLITE_TOKENS="off") as scene:
        assert (await scene.ask("/ui/", method="GET", fields=())).status == 200
        answer = await scene.ask("/ui/", method="GET", fields=(), host="evil.example")
        assert failure(answer) == (403, "permission_denied")
