"""Who is let in: the Authorization field to the letter, and one refusal for all the others."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mqlite_actor.contract.calls import CALLS
from mqlite_actor.engine.engine import Engine
from tests.services.broker_scene import BEARER, TOKEN, Scene, failure, message, path, raw, served

UNAUTHENTICATED = (401, "unauthenticated")


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


async def test_a_refused_credential_leaves_the_connection_usable(scene: Scene) -> None:
    async with await scene.connect() as client:
        for fields in (REFUSED["100 kB"], REFUSED["no text at all"], REFUSED["two fields"]):
            refused = await client.ask(raw(path("AdminService/Status"), b"{}", fields=fields))
            assert failure(refused) == UNAUTHENTICATED
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
