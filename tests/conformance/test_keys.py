"""Access keys through every handle: what makes one, what is kept of it, and how it ends."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import InvalidArgument, KeyConflict, NotFound
from mqlite_actor.contract.keys import (
    CreateKeyRequest,
    CreateKeyResponse,
    ListKeysRequest,
    RevokeKeyRequest,
    Right,
)
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance.asking import refusal
from tests.conformance.handles import opened
from tests.conformance.key_calls import create, find, new_id, spellings

TOKEN = re.compile("mqk_[0-9a-f]{64}")


# -- making ----------------------------------------------------------------------------------------


@pytest.mark.promise("W46", "E155")
async def test_a_new_key_is_echoed_with_a_token_that_is_nowhere_else(handle: Handle) -> None:
    key_id = new_id()
    reply = await create(handle, key_id, name="billing", permissions=["listen"])
    assert TOKEN.fullmatch(reply.token)
    key = reply.key
    assert (key.id, key.name, key.permissions) == (key_id, "billing", ["listen"])
    assert (key.expires_at_ms, key.revoked_at_ms) == (0, 0)
    assert key.created_at_ms > 0
    assert await find(handle, key_id) == key
    assert (await create(handle)).token != reply.token


CANONICAL: dict[str, tuple[str, ...]] = {
    "send": ("send",),
    "send send send": ("send",),
    "listen": ("listen",),
    "send listen": ("send", "listen"),
    "listen send": ("send", "listen"),
    "listen send send": ("send", "listen"),
    "manage": ("manage",),
    "manage manage": ("manage",),
    "manage send": ("manage",),
    "listen manage": ("manage",),
    "listen manage send": ("manage",),
}


@pytest.mark.promise("W49")
async def test_permissions_have_one_form_whatever_the_caller_wrote(handle: Handle) -> None:
    for words, canonical in CANONICAL.items():
        key = (await create(handle, permissions=words.split())).key
        assert tuple(key.permissions) == canonical, words
        assert await find(handle, key.id) == key


GOOD = CreateKeyRequest(id="ab" * 16, name="n", permissions=["send"])

REFUSED: dict[str, tuple[CreateKeyRequest, str]] = {
    what: (msgspec.structs.replace(GOOD, **changes), words)
    for what, changes, words in (
        ("no permission", {"permissions": []}, "permissions"),
        ("an unknown one", {"permissions": ["receive"]}, "'receive'"),
        ("an unknown one beside manage", {"permissions": ["manage", "all"]}, "'all'"),
        ("an unknown one before manage", {"permissions": ["all", "manage"]}, "'all'"),
        ("monitor", {"permissions": ["monitor"]}, "'monitor'"),
        ("an empty permission", {"permissions": [""]}, "permissions"),
        ("a capital", {"permissions": ["Send"]}, "'Send'"),
        ("a padded permission", {"permissions": [" send"]}, "' send'"),
        ("a list in a text", {"permissions": ["send,listen"]}, "'send,listen'"),
        ("no id", {"id": ""}, "id has"),
        ("a short id", {"id": "a" * 31}, "id has"),
        ("a long id", {"id": "a" * 33}, "id has"),
        ("a capital in the id", {"id": "A" + "a" * 31}, "id has"),
        ("a letter that is no digit", {"id": "g" + "a" * 31}, "id has"),
        ("a dashed id", {"id": "12345678-1234-1234-1234-123456789012"}, "id has"),
        ("a line break behind the id", {"id": "a" * 32 + "\n"}, "id has"),
        ("foreign digits in the id", {"id": "１" + "a" * 31}, "id has"),
        ("no name", {"name": ""}, "name"),
        ("a blank name", {"name": " "}, "name"),
        ("129 bytes", {"name": "x" * 129}, "name has 129 bytes"),
        ("129 bytes in 43 letters", {"name": "キ" * 43}, "name has 129 bytes"),
        ("a space before the name", {"name": " n"}, "white space"),
        ("a space behind it", {"name": "n "}, "white space"),
        ("a line break behind it", {"name": "n\n"}, "white space"),
        ("a wide space before it", {"name": "\u3000n"}, "white space"),
        ("a NUL", {"name": "a\0b"}, "NUL"),
        ("a NUL at the end", {"name": "a\0"}, "NUL"),
        ("an expiry of long ago", {"expires_at_ms": 1}, "expires_at_ms"),
        ("a negative expiry", {"expires_at_ms": -1}, "expires_at_ms"),
        ("the smallest integer", {"expires_at_ms": limits.INT64_MIN}, "expires_at_ms"),
        ("after the last instant", {"expires_at_ms": limits.INSTANT_MS_MAX + 1}, "expires_at_ms"),
        ("the greatest integer", {"expires_at_ms": limits.INT64_MAX}, "expires_at_ms"),
    )
}


@pytest.mark.promise("W48")
async def test_a_bad_key_is_refused_by_the_name_of_its_field_and_nothing_is_kept(
    handle: Handle,
) -> None:
    for what, (request, words) in REFUSED.items():
        with pytest.raises(InvalidArgument) as caught:
            await handle.call(request)
        assert words in caught.value.message, what
        assert "mqk_" not in caught.value.message, what
        assert "\n" not in caught.value.message, what
    assert await find(handle, GOOD.id) is None


@pytest.mark.promise("W48")
async def test_what_is_wrong_is_told_in_the_order_permissions_id_name_expiry(
    handle: Handle,
) -> None:
    """Each request mends one thing more; a taken id is looked for when all the rest is right."""
    taken = (await create(handle)).key.id
    cases = (
        (CreateKeyRequest(id="x", name=" ", permissions=["x"], expires_at_ms=1), "permissions"),
        (CreateKeyRequest(id="x", name=" ", permissions=["send"], expires_at_ms=1), "id has"),
        (CreateKeyRequest(id=taken, name=" ", permissions=["send"], expires_at_ms=1), "name"),
        (CreateKeyRequest(id=taken, name="n", permissions=["send"], expires_at_ms=1), "expires_at"),
    )
    for request, words in cases:
        with pytest.raises(InvalidArgument) as caught:
            await handle.call(request)
        assert caught.value.message.startswith(words)
    with pytest.raises(KeyConflict):
        await create(handle, taken)


async def test_a_name_is_any_text_of_up_to_128_bytes_and_need_not_be_unique(
    handle: Handle,
) -> None:
    for name in ("x", "x" * 128, "キ" * 42 + "é", "two words", "a\tb", "mqk_", "😀", "'; --", "%"):
        first, second = await create(handle, name=name), await create(handle, name=name)
        assert first.key.name == second.key.name == name
        assert await find(handle, first.key.id) == first.key


async def test_an_expiry_may_be_the_last_instant(handle: Handle) -> None:
    key = (await create(handle, expires_at_ms=limits.INSTANT_MS_MAX)).key
    assert key.expires_at_ms == limits.INSTANT_MS_MAX


@pytest.mark.needs_clock
@pytest.mark.promise("W48")
async def test_an_expiry_is_later_than_now_by_a_millisecond_at_least(
    handle: Handle, clock: ManualClock
) -> None:
    now = clock.now_ms()
    for instant in (now - 1, now):
        with pytest.raises(InvalidArgument, match=str(now)):
            await create(handle, expires_at_ms=instant)
    assert (await create(handle, expires_at_ms=now + 1)).key.created_at_ms == now


@pytest.mark.needs_clock
@pytest.mark.parametrize("half", ["\ud800", "a\udfff"])
async def test_half_a_surrogate_pair_is_refused_in_every_text(handle: Handle, half: str) -> None:
    requests: tuple[wire.Request[Any], ...] = (
        CreateKeyRequest(id=new_id(), name=half, permissions=["send"]),
        CreateKeyRequest(id=half, name="n", permissions=["send"]),
        CreateKeyRequest(id=new_id(), name="n", permissions=[half]),
        ListKeysRequest(after_id=half),
        ListKeysRequest(sort=half),
        RevokeKeyRequest(id=half),
    )
    for request in requests:
        assert await refusal(handle, request) == "invalid_argument", request


# -- an id that is taken ---------------------------------------------------------------------------


@pytest.mark.promise("W47", "E155")
async def test_an_id_is_taken_for_good_and_the_old_key_stays_as_it_was(handle: Handle) -> None:
    first = await create(handle, name="of the billing service")
    for is_revoked in (False, True):
        if is_revoked:
            await handle.call(RevokeKeyRequest(id=first.key.id))
        before = await find(handle, first.key.id)
        for name, permissions in ((first.key.name, ["send"]), ("another", ["manage"])):
            with pytest.raises(KeyConflict) as caught:
                await create(handle, first.key.id, name=name, permissions=permissions)
            assert first.token not in caught.value.message
            assert first.key.name not in caught.value.message
        assert await find(handle, first.key.id) == before


@pytest.mark.needs_clock
@pytest.mark.promise("W47")
async def test_the_id_of_an_expired_key_is_taken_too(handle: Handle, clock: ManualClock) -> None:
    key = (await create(handle, expires_at_ms=clock.now_ms() + 1)).key
    clock.advance(1_000)
    with pytest.raises(KeyConflict):
        await create(handle, key.id)


@pytest.mark.promise("W47")
async def test_of_many_who_ask_for_one_id_at_once_one_gets_it(handle: Handle) -> None:
    key_id = new_id()
    made: list[CreateKeyResponse] = []
    refused: list[KeyConflict] = []

    async def ask() -> None:
        try:
            made.append(await create(handle, key_id))
        except KeyConflict as error:
            refused.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(ask)
    assert (len(made), len(refused)) == (1, 7)
    assert await find(handle, key_id) == made[0].key


# -- revoking --------------------------------------------------------------------------------------


@pytest.mark.promise("W51", "E155")
async def test_a_revoked_key_says_so_and_the_first_time_stays(handle: Handle) -> None:
    key = (await create(handle)).key
    for _ in range(2):
        assert (await handle.call(RevokeKeyRequest(id=key.id))).ok is True
    revoked = await find(handle, key.id)
    assert revoked is not None
    assert revoked.revoked_at_ms >= key.created_at_ms
    assert (revoked.id, revoked.name, revoked.permissions) == (key.id, key.name, key.permissions)


@pytest.mark.promise("W51")
@pytest.mark.parametrize("bad", ["", "x", "a" * 31, "a" * 33, "A" * 32, "a" * 32 + "\n", "ｅ" * 32])
async def test_a_malformed_id_is_refused_and_an_unknown_one_is_not_found(
    handle: Handle, bad: str
) -> None:
    with pytest.raises(InvalidArgument, match="id has to be 32"):
        await handle.call(RevokeKeyRequest(id=bad))
    unknown = new_id()
    with pytest.raises(NotFound, match=unknown):
        await handle.call(RevokeKeyRequest(id=unknown))


@pytest.mark.needs_clock
@pytest.mark.promise("W51")
async def test_revoking_again_later_keeps_the_first_time(
    handle: Handle, clock: ManualClock
) -> None:
    key = (await create(handle, expires_at_ms=clock.now_ms() + 1)).key
    clock.advance(5)  # an expired key can be revoked as well
    revoked_at = clock.now_ms()
    for _ in range(3):
        await handle.call(RevokeKeyRequest(id=key.id))
        clock.advance(1_000)
        found = await find(handle, key.id)
        assert found is not None
        assert found.revoked_at_ms == revoked_at


@pytest.mark.needs_clock
async def test_revoked_is_never_zero_even_when_the_clock_is(
    handle: Handle, clock: ManualClock
) -> None:
    clock.set(0)
    key = (await create(handle)).key
    await handle.call(RevokeKeyRequest(id=key.id))
    found = await find(handle, key.id)
    assert found is not None
    assert (found.created_at_ms, found.revoked_at_ms) == (0, 1)


# -- who a token belongs to ------------------------------------------------------------------------


@pytest.mark.promise("E155", "W50", "W51")
async def test_a_token_works_until_the_millisecond_of_its_expiry_or_its_revocation(
    engine: Engine, clock: ManualClock
) -> None:
    made = await create(engine, permissions=["listen"], expires_at_ms=clock.now_ms() + 1_000)
    lasting = await create(engine, permissions=["listen", "send"])
    clock.advance(999)
    assert await engine.authenticate(made.token) == ("success", frozenset({Right.LISTEN}))
    clock.advance(1)
    for _ in range(2):
        assert await engine.authenticate(made.token) == ("expired", frozenset())
        clock.advance(10**9)
    assert await find(engine, made.key.id) == made.key, "it is still listed"
    assert await engine.authenticate(lasting.token) == (
        "success",
        frozenset({Right.LISTEN, Right.SEND}),
    )
    await engine.call(RevokeKeyRequest(id=lasting.key.id))
    assert await engine.authenticate(lasting.token) == ("revoked", frozenset())


async def test_managing_covers_every_right_and_nothing_else_covers_another(engine: Engine) -> None:
    for words, canonical in CANONICAL.items():
        made = await create(engine, permissions=words.split())
        rights = frozenset(Right if canonical == ("manage",) else map(Right, canonical))
        assert await engine.authenticate(made.token) == ("success", rights), words


@pytest.mark.promise("E155")
async def test_nothing_but_the_exact_token_is_known(engine: Engine) -> None:
    made = await create(engine)
    digest = hashlib.sha256(made.token.encode()).hexdigest()
    for wrong in (
        made.token[:-1], made.token + "0", made.token.upper(), made.token[4:], made.key.id,
        f"mqk_{digest}", digest, "mqk_" + "0" * 64, "", made.token + "\n", " " + made.token,
    ):  # fmt: skip
        assert await engine.authenticate(wrong) == ("invalid", frozenset()), wrong


# -- the file --------------------------------------------------------------------------------------


@pytest.mark.promise("E155", "W55", "W57")
async def test_the_files_hold_digests_only_and_keys_survive_a_reopening(
    store: Path, clock: ManualClock
) -> None:
    async with opened(store, clock) as engine:
        kept = await create(engine, permissions=["manage"])
        gone = await create(engine, permissions=["send"])
        await engine.call(RevokeKeyRequest(id=gone.key.id))
        for made in (kept, gone):
            await engine.authenticate(made.token)
        _check_files(store.parent, kept, gone)
    _check_files(store.parent, kept, gone)
    clock.advance(1_000)
    async with opened(store, clock) as engine:
        assert await engine.authenticate(kept.token) == ("success", frozenset(Right))
        assert await engine.authenticate(gone.token) == ("revoked", frozenset())
        assert await find(engine, kept.key.id) == kept.key
        with pytest.raises(KeyConflict):
            await create(engine, gone.key.id)


def _check_files(folder: Path, *made: CreateKeyResponse) -> None:
    content = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    for each in made:
        assert hashlib.sha256(each.token.encode()).digest() in content, "the search looks nowhere"
        assert not [one for one in spellings(each.token) if one in content]
