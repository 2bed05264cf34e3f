"""Who is let in: the Authorization field to the letter, and one refusal for all the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.calls import CALLS
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_broker.app import BrokerApp
from mqlite_broker.auth import OUTCOMES
from mqlite_broker.settings import read_settings
from tests.engine.gate import teach
from tests.services.broker_scene import (
    BEARER,
    LOOPBACK,
    TOKEN,
    Scene,
    failure,
    message,
    path,
    raw,
    served,
)
from tests.services.credentials import MONITOR, Key, bearer, mint, revoke
from tests.services.door_client import open_door
from tests.storage.fault_vfs import Fault, FaultVfs, faulty

UNAUTHENTICATED = (401, "unauthenticated")
INTERNAL = (500, "internal")
STATUS = "AdminService/Status"


@pytest.fixture
async def scene(engine: Engine) -> AsyncIterator[Scene]:
    async with served(engine) as scene:
        yield scene


ACCEPTED = (
    "Authorization: Bearer scene-token",
    "authorization: bearer scene-token",
    "AUTHORIZATION: BEARER scene-token",
    "Authorization: bEaReR   scene-token",
    "Authorization:Bearer scene-token",
    "Authorization:    Bearer  scene-token   ",
)

REFUSED: dict[str, tuple[str | bytes, ...]] = {
    "nothing": (),
    "an empty field": ("Authorization:",),
    "a scheme alone": ("Authorization: Bearer",),
    "a scheme and a space": ("Authorization: Bearer ",),
    "a bare token": ("Authorization: scene-token",),
    "another scheme": ("Authorization: Basic scene-token",),
    "another scheme, encoded": ("Authorization: Basic OnNjZW5lLXRva2Vu",),
    "no space": ("Authorization: Bearerscene-token",),
    "a colon": ("Authorization: Bearer: scene-token",),
    "a tab after the scheme": ("Authorization: Bearer\tscene-token",),
    "a tab after the space": ("Authorization: Bearer \tscene-token",),
    "a space inside": ("Authorization: Bearer scene -token",),
    "a tab inside": ("Authorization: Bearer scene\t-token",),
    "a word behind": ("Authorization: Bearer scene-token x",),
    "a comma inside": ("Authorization: Bearer scene,token",),
    "a comma behind": ("Authorization: Bearer scene-token,",),
    "a list": ("Authorization: Bearer wrong, Bearer scene-token",),
    "a parameter": ('Authorization: Bearer token="scene-token"',),
    "quotes": ('Authorization: Bearer "scene-token"',),
    "another letter case": ("Authorization: Bearer SCENE-TOKEN",),
    "the beginning": ("Authorization: Bearer scene-toke",),
    "one letter more": ("Authorization: Bearer scene-tokenx",),
    "two fields": ("Authorization: Bearer scene-token", "Authorization: Bearer scene-token"),
    "two fields, one wrong": ("Authorization: Bearer scene-token", "authorization: Bearer x"),
    "a letter beyond ASCII": (b"Authorization: Bearer caf\xe9",),
    "UTF-8": ("Authorization: Bearer scène-token",),
    "no text at all": (b"Authorization: Bearer \xff\xfe\x80",),
    "100 kB": (f"Authorization: Bearer {'x' * 100_000}",),
    "another field": (f"X-Api-Key: {TOKEN}", f"Proxy-Authorization: Bearer {TOKEN}"),
    "a cookie": (f"Cookie: token={TOKEN}; mqlite={TOKEN}",),
}


@pytest.mark.promise("W31")
@pytest.mark.parametrize("field", ACCEPTED)
async def test_the_scheme_is_bearer_in_any_letter_case(scene: Scene, field: str) -> None:
    answer = await scene.call("AdminService/ListQueues", fields=(field,))
    assert answer.status == 200


@pytest.mark.promise("W29", "W31")
async def test_every_wrong_credential_gets_the_same_bytes(scene: Scene) -> None:
    bodies = {}
    for name, fields in REFUSED.items():
        answer = await scene.call("AdminService/ListQueues", fields=fields)
        assert failure(answer) == UNAUTHENTICATED, name
        assert "www-authenticate" not in answer.headers
        bodies[name] = answer.body
    assert len(set(bodies.values())) == 1, bodies
    assert b"scene" not in bodies["nothing"]


@pytest.mark.promise("W29")
@pytest.mark.parametrize("call", [call.path for call in CALLS])
async def test_no_call_is_answered_without_a_token(scene: Scene, call: str) -> None:
    for name in ("nothing", "a bare token", "one letter more", "a scheme and a space"):
        answer = await scene.ask(call, b"{}", fields=REFUSED[name])
        assert failure(answer) == UNAUTHENTICATED, name
        assert "www-authenticate" not in answer.headers


@pytest.mark.promise("W12")
async def test_a_token_in_the_query_or_the_body_is_none(scene: Scene) -> None:
    target = f"{path('Stats')}?token={TOKEN}&access_token={TOKEN}"
    body = f'{{"queue":"q","token":"{TOKEN}"}}'.encode()
    assert failure(await scene.ask(target, body, fields=())) == UNAUTHENTICATED


@pytest.mark.parametrize(
    ("lane", "names"),
    [("on", ("no text at all", "two fields")), ("off", ("100 kB", "no text at all", "two fields"))],
)
async def test_a_refused_credential_leaves_the_connection_usable(
    engine: Engine, lane: str, names: tuple[str, ...]
) -> None:
    async with served(engine, MQLITE_LANE=lane) as scene, await scene.connect() as client:
        for name in names:
            call = raw(path("AdminService/Status"), b"{}", fields=REFUSED[name])
            assert failure(await client.ask(call)) == UNAUTHENTICATED
        assert (await client.ask(raw(path("AdminService/Status"), b"{}"))).status == 200


@pytest.mark.promise("W30")
async def test_each_token_of_the_list_works_trimmed(engine: Engine) -> None:
    async with served(engine, MQLITE_TOKENS=" first , mqk_second,,third\n") as scene:
        for token in ("first", "mqk_second", "third"):
            fields = (f"Authorization: Bearer {token}",)
            assert (await scene.call("AdminService/Status", fields=fields)).status == 200
        for fields in (("Authorization: Bearer firs",), ("Authorization: Bearer first,third",)):
            answer = await scene.call("AdminService/Status", fields=fields)
            assert failure(answer) == UNAUTHENTICATED


@pytest.mark.parametrize("token", ["café", "ключ", "キー", "naïve-☃"])
async def test_a_token_beyond_ascii_is_compared_byte_by_byte(engine: Engine, token: str) -> None:
    """The environment holds UTF-8, and every client of the command line sends what it was given."""
    async with served(engine, MQLITE_TOKENS=token) as scene:
        field = f"Authorization: Bearer {token}".encode()
        assert (await scene.call("AdminService/Status", fields=(field,))).status == 200
        answer = await scene.call("AdminService/Status", fields=(field[:-1],))
        assert failure(answer) == UNAUTHENTICATED


@pytest.mark.promise("W34")
@pytest.mark.parametrize("off", ["off", " OFF ", "Off\n"])
async def test_without_authentication_every_credential_is_welcome(engine: Engine, off: str) -> None:
    async with served(engine, MQLITE_TOKENS=off) as scene:
        for fields in REFUSED.values():
            assert (await scene.call("AdminService/Status", fields=fields)).status == 200


async def test_off_inside_a_list_is_a_token_like_any_other(engine: Engine) -> None:
    async with served(engine, MQLITE_TOKENS="off,t") as scene:
        for token in ("off", "t"):
            fields = (f"Authorization: Bearer {token}",)
            assert (await scene.call("AdminService/Status", fields=fields)).status == 200
        assert failure(await scene.call("AdminService/Status", fields=())) == UNAUTHENTICATED


async def test_the_words_of_a_refusal_help_and_tell_nothing(scene: Scene) -> None:
    words = message(await scene.call("AdminService/Status", fields=()))
    assert "Bearer" in words
    assert TOKEN not in words
    assert BEARER not in words


# -- managed keys ----------------------------------------------------------------------------------


@pytest.mark.promise("W29", "W50", "W51")
async def test_a_key_that_ended_is_refused_in_the_same_bytes_as_one_that_never_was(
    scene: Scene, clock: ManualClock
) -> None:
    ended, revoked = [
        await mint(scene, "manage", expires_at_ms=clock.now_ms() + number) for number in (1, 9)
    ]
    clock.advance(1)
    await revoke(scene, revoked)
    token = (await mint(scene, "manage")).token
    answers = [
        await scene.call(STATUS, fields=fields)
        for fields in (
            (), bearer("wrong"), bearer(ended.token), bearer(revoked.token),
            bearer("mqk_" + "0" * 64), bearer(token.upper()), bearer(token[:-1]),
            bearer(token + "0"), bearer(token[4:]), bearer("MQK_" + token[4:]),
            (f"Authorization: Basic {token}",), (*bearer(token), *bearer(token)),
            (f"Authorization: Bearer\t{token}",), (f"Authorization: {token}",),
        )
    ]  # fmt: skip
    assert {failure(answer) for answer in answers} == {UNAUTHENTICATED}
    assert len({answer.body for answer in answers}) == 1
    assert (
        len({frozenset(answer.headers.items() - {_date(answer.headers)}) for answer in answers})
        == 1
    )
    assert (await scene.call(STATUS, fields=bearer(token))).status == 200


def _date(headers: dict[str, str]) -> tuple[str, str]:
    return "date", headers["date"]


@asynccontextmanager
async def counted(engine: Engine) -> AsyncIterator[tuple[Scene, dict[str, int]]]:
    """A served engine, and how its checks ended so far."""
    settings = read_settings(LOOPBACK, {"MQLITE_TOKENS": TOKEN, "MQLITE_MONITOR_TOKENS": MONITOR})
    app = BrokerApp(engine, settings)
    async with open_door(app) as door:
        yield Scene(door, engine, settings), app.rpc.authenticator.counts


@pytest.mark.promise("W50", "W51")
async def test_each_check_is_counted_once_by_how_it_ended(
    engine: Engine, clock: ManualClock
) -> None:
    async with counted(engine) as (scene, counts):
        weak = await mint(scene, "send")
        ended = await mint(scene, "manage", expires_at_ms=clock.now_ms() + 1)
        clock.advance(1)
        revoked = await mint(scene, "manage")
        await revoke(scene, revoked)
        cases = (
            ("success", path(STATUS), "POST", (BEARER,)),
            ("success", path("Send"), "POST", weak.fields),
            ("success", path("Send"), "GET", weak.fields),
            ("success", "/nope", "POST", weak.fields),
            ("success", "/nope", "POST", bearer(MONITOR)),
            ("missing", path(STATUS), "POST", ()),
            ("missing", "/nope", "POST", ()),
            ("invalid", path(STATUS), "POST", ("Authorization:",)),
            ("invalid", path(STATUS), "POST", REFUSED["a bare token"]),
            ("invalid", path(STATUS), "POST", REFUSED["two fields"]),
            ("invalid", path(STATUS), "POST", bearer("wrong")),
            ("invalid", path(STATUS), "POST", bearer("mqk_" + "0" * 64)),
            ("expired", path(STATUS), "POST", ended.fields),
            ("revoked", path(STATUS), "POST", revoked.fields),
            ("permission_denied", path(STATUS), "POST", weak.fields),
            ("permission_denied", path(STATUS), "GET", weak.fields),
            ("permission_denied", path("Send"), "POST", bearer(MONITOR)),
            ("", "/healthz", "GET", bearer("wrong")),
            ("", "/", "GET", ()),
        )
        assert tuple(counts) == OUTCOMES
        for outcome, target, method, fields in cases:
            before = dict(counts)
            await scene.ask(target, b"{}", method=method, fields=fields)
            grown = {word: counts[word] - before[word] for word in counts}
            assert {word: by for word, by in grown.items() if by} == (
                {outcome: 1} if outcome else {}
            ), (outcome, target, method)


# -- a key store that cannot be read ---------------------------------------------------------------


@pytest.fixture
def vfs() -> Iterator[FaultVfs]:
    with faulty() as each:
        yield each


def is_told(key: Key, text: bytes) -> bool:
    """Whether a text holds the token or its digest."""
    return any(
        each in text for each in (key.token[4:].encode(), key.digest, key.digest.hex().encode())
    )


async def test_a_store_that_cannot_be_read_is_500_for_keys_and_mends_itself(
    vfs: FaultVfs, store: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Opened anew, so that the page with the keys is not in memory yet."""
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine, counted(engine) as (scene, _):
        key = await mint(scene, "manage")
    async with open_engine(str(store), options) as engine, counted(engine) as (scene, counts):
        vfs.arm(Fault("read", 1, lasting=True))
        answer = await scene.call(STATUS, fields=key.fields)
        assert vfs.fired
        assert failure(answer) == INTERNAL
        assert counts == {**dict.fromkeys(OUTCOMES, 0), "backend_error": 1}
        assert failure(await scene.ask("/nope")) == (404, "not_found")
        assert failure(await scene.ask(path(STATUS), fields=bearer(MONITOR)))[0] == 403
        answer_to_monitor = await scene.call("AdminService/Observe", fields=bearer(MONITOR))
        assert answer_to_monitor.status == 200
        vfs.disarm()
        assert (await scene.call(STATUS, fields=key.fields)).status == 200
    assert not is_told(key, answer.body + caplog.text.encode())


async def test_tokens_of_the_environment_work_without_a_key_store(
    store: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The table of keys is taken away by another program; queues are as they were."""
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine, counted(engine) as (scene, counts):
        key = await mint(scene, "manage")
        await scene.ok("AdminService/CreateQueue", {"name": "q"})
        other = apsw.Connection(str(store))
        other.execute("DROP TABLE access_keys")
        other.close()
        answers = [
            await scene.call(STATUS, fields=fields)
            for fields in (key.fields, bearer("mqk_" + "0" * 64))
        ]
        assert {failure(answer) for answer in answers} == {INTERNAL}
        assert counts["backend_error"] == len(answers)
        assert failure(await scene.call(STATUS, fields=bearer("wrong"))) == UNAUTHENTICATED
        assert failure(await scene.call(STATUS, fields=bearer(MONITOR)))[0] == 403
        await scene.ok("QueueService/Send", {"queue": "q", "messages": [{"body": "eA=="}]})
        assert failure(await scene.call("AuthService/ListKeys")) == INTERNAL
    said = b"".join(answer.body for answer in answers) + caplog.text.encode()
    assert b"access_keys" not in b"".join(answer.body for answer in answers)
    assert not is_told(key, said)


async def test_a_store_that_another_program_writes_to_knows_its_keys(
    scene: Scene, store: Path
) -> None:
    key = await mint(scene, "manage")
    other = apsw.Connection(str(store))
    other.execute("BEGIN IMMEDIATE")
    answer = await scene.ask("/nope", fields=key.fields)
    other.execute("ROLLBACK")
    other.close()
    assert failure(answer) == (404, "not_found")


async def test_a_store_that_is_too_busy_to_be_read_is_500_for_keys_too(scene: Scene) -> None:
    """Not 503: who presents a key cannot tell a busy store from a broken one (wire 1.2)."""
    key = await mint(scene, "manage")
    look_up = scene.engine._table[commands.Authenticate]

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise apsw.BusyError

    teach(scene.engine, commands.Authenticate, fail)
    answer = await scene.ask("/nope", fields=key.fields)
    teach(scene.engine, commands.Authenticate, look_up)
    assert failure(answer) == INTERNAL
    assert "retry-after" not in answer.headers
    assert failure(await scene.ask("/nope", fields=key.fields)) == (404, "not_found")


async def test_a_closed_engine_knows_no_key(scene: Scene) -> None:
    key = await mint(scene, "manage")
    scene.engine.close()
    assert failure(await scene.ask("/nope", fields=key.fields)) == INTERNAL
    assert failure(await scene.ask("/nope")) == (404, "not_found")
    assert failure(await scene.ask("/nope", fields=())) == UNAUTHENTICATED
